{{ config(materialized='incremental_view', on_configuration_change='apply') }}
{% set shown = 2 %}
SELECT day, sum(amount) AS revenue
FROM {{ ref('paid_orders') }}
GROUP BY day
ORDER BY revenue DESC, day
LIMIT {{ shown }}
