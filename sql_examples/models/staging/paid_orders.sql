{{ config(materialized='incremental_view') }}
-- Orders of at least {{ var('smallest_amount', 1) }}, without those that were given back
SELECT id, customer_id, CAST(ordered_at AS DATE) AS day, amount
FROM {{ source('shop', 'orders') }}
WHERE status <> 'returned' AND amount >= {{ var('smallest_amount', 1) }}
