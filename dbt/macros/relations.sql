{# Relations of spark_incr are dropped by its own statements; all others as dbt-spark does it. #}

{% macro spark__drop_relation(relation) -%}
  {%- set information = relation.information or '' -%}
  {% call statement('drop_relation', auto_begin=False) -%}
    {%- if 'incremental=view' in information -%}
      drop incremental view if exists {{ relation }} cascade
    {%- elif 'incremental=table' in information -%}
      drop incremental table if exists {{ relation }} cascade
    {%- else -%}
      drop {{ relation.type }} if exists {{ relation }}
    {%- endif -%}
  {%- endcall %}
{% endmacro %}
