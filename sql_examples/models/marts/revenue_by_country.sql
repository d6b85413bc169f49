{{ config(materialized='incremental_view', tblproperties={'owner': 'finance'}) }}
SELECT c.country, count(*) AS orders, sum(o.amount) AS revenue, max(o.amount) AS largest
FROM {{ ref('paid_orders') }} AS o
JOIN {{ source('shop', 'customers') }} AS c ON c.id = o.customer_id
GROUP BY c.country
