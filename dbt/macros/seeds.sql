{#
  Seeds as incremental tables, so that views follow them: config primary_key names their key,
  incremental_table: false makes a plain table of Spark; both may stand under meta.
#}

{% macro spark__create_csv_table(model, agate_table) %}
  {%- set settings = {} -%}
  {%- do settings.update(model['config']) -%}
  {%- do settings.update(model['config'].get('meta') or {}) -%}
  {%- if settings.get('incremental_table', true) is false -%}
    {{ return(dbt_spark.spark__create_csv_table(model, agate_table)) }}
  {%- endif -%}
  {%- set types = model['config'].get('column_types', {}) -%}
  {%- set columns = [] -%}
  {%- for name in agate_table.column_names -%}
    {%- set type = types.get(name, adapter.convert_type(agate_table, loop.index0)) -%}
    {%- do columns.append(adapter.quote(name) ~ ' ' ~ type) -%}
  {%- endfor -%}
  {%- set key = settings.get('primary_key', []) -%}
  {%- set key = [key] if key is string else key -%}
  {%- if key -%}{%- do columns.append('PRIMARY KEY (' ~ (key | join(', ')) ~ ')') -%}{%- endif -%}
  {% set sql = 'create incremental table ' ~ this.render() ~ ' (' ~ (columns | join(', ')) ~ ')' %}
  {% call statement('_') -%}{{ sql }}{%- endcall %}
  {{ return(sql) }}
{% endmacro %}


{% macro spark__reset_csv_table(model, full_refresh, old_relation, agate_table) %}
  {%- set is_ours = 'incremental=table' in (old_relation.information or '') -%}
  {% if is_ours and not full_refresh %}
    {% set sql = 'truncate table ' ~ this.render() %}
    {% call statement('_') -%}{{ sql }}{%- endcall %}
    {{ return(sql) }}
  {% endif %}
  {% do adapter.drop_relation(old_relation) %}
  {{ return(create_csv_table(model, agate_table)) }}
{% endmacro %}
