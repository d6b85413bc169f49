{{ config(materialized='incremental_view') }}
{% set shown = 3 %}
SELECT day, sum(amount) AS revenue
FROM {{ ref('paid_orders') }}
GROUP BY day
ORDER BY revenue DESC, day
LIMIT {{ shown }}
