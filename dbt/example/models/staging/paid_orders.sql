{{ config(materialized='incremental_view') }}
-- Orders of at least {{ var('smallest_amount', 1) }} that were not given back
SELECT id, customer_id, ordered_on AS day, amount
FROM {{ ref('orders') }}
WHERE status <> 'returned' AND amount >= {{ var('smallest_amount', 1) }}
