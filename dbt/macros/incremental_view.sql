{#
  The materialization `incremental_view`: a view that spark_incr keeps up to date.

  config: refresh_policy, trigger or schedule, comment, tblproperties, each of them also under meta,
          on_configuration_change: apply (default) | continue | fail

  Two fingerprints, of the query and of the settings, are kept as properties of the view.
  `spark-incr run` writes the same statements; change both together.
#}

{% materialization incremental_view, adapter='spark' %}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set existing = load_cached_relation(this) -%}
  {%- set settings = spark_incr.incremental_view_clauses() -%}
  {%- set query = sql | trim -%}
  {%- set query_fingerprint = local_md5(query) -%}
  {%- set settings_fingerprint = local_md5(settings | join('\n')) -%}

  {{ run_hooks(pre_hooks) }}

  {%- if existing is not none and (should_full_refresh() or not spark_incr.is_incremental_view(existing)) -%}
    {%- do adapter.drop_relation(existing) -%}
    {%- set existing = none -%}
  {%- endif -%}

  {%- set known = spark_incr.incremental_view_properties(this) if existing is not none else '' -%}
  {%- set same_query = ('model.query=' ~ query_fingerprint) in known -%}
  {%- set same_settings = ('model.settings=' ~ settings_fingerprint) in known -%}
  {%- set on_change = (config.get('on_configuration_change') or 'apply') | string | lower -%}

  {%- if existing is not none and same_query and not same_settings and on_change.endswith('fail') -%}
    {%- do exceptions.raise_compiler_error(
      'model ' ~ this ~ ': its settings have changed, and on_configuration_change is fail'
    ) -%}
  {%- endif -%}

  {%- if existing is not none and same_query and (same_settings or on_change.endswith('continue')) -%}
    {%- set done = 'unchanged' if same_settings else 'kept' -%}
    {%- do store_raw_result('main', message=done ~ ' ' ~ this, code='skip', rows_affected='-1') -%}
  {%- else -%}
    {%- call statement('main') -%}
{{ spark_incr.incremental_view_statement(this, query, settings, query_fingerprint, settings_fingerprint) }}
    {%- endcall -%}
  {%- endif -%}

  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}


{% macro incremental_view_statement(relation, query, settings, query_fingerprint, settings_fingerprint) -%}
  {%- set properties = {} -%}
  {%- do properties.update(spark_incr.setting('tblproperties') or {}) -%}
  {%- do properties.update({'model.query': query_fingerprint, 'model.settings': settings_fingerprint}) -%}
  {%- set pairs = [] -%}
  {%- for key, value in properties.items() -%}
    {%- do pairs.append(spark_incr.literal(key) ~ ' = ' ~ spark_incr.literal(value)) -%}
  {%- endfor -%}
  {%- set lines = ['CREATE OR REPLACE INCREMENTAL VIEW ' ~ relation] -%}
  {%- for line in settings if not line.startswith('TBLPROPERTIES') -%}
    {%- do lines.append(line) -%}
  {%- endfor -%}
  {%- do lines.append('TBLPROPERTIES (' ~ (pairs | join(', ')) ~ ')') -%}
  {%- do lines.append('AS') -%}
  {%- do lines.append(query) -%}
  {{- lines | join('\n') -}}
{%- endmacro %}


{% macro incremental_view_clauses() -%}
  {%- set lines = [] -%}
  {%- set comment = spark_incr.setting('comment') or model.description -%}
  {%- if comment -%}{%- do lines.append('COMMENT ' ~ spark_incr.literal(comment)) -%}{%- endif -%}
  {%- set policy = spark_incr.setting('refresh_policy') -%}
  {%- if policy -%}{%- do lines.append('REFRESH POLICY ' ~ (policy | upper)) -%}{%- endif -%}
  {%- set trigger, schedule = spark_incr.setting('trigger'), spark_incr.setting('schedule') -%}
  {%- if trigger and schedule -%}
    {%- do exceptions.raise_compiler_error(
      'model ' ~ this ~ ': trigger and schedule are both set, and either says when the view is refreshed'
    ) -%}
  {%- endif -%}
  {%- if schedule -%}
    {%- do lines.append('SCHEDULE EVERY ' ~ (schedule | upper)) -%}
  {%- elif trigger and (trigger | upper) == 'MANUAL' -%}
    {%- do lines.append('MANUAL') -%}
  {%- elif trigger -%}
    {%- do lines.append('TRIGGER ' ~ (trigger | upper)) -%}
  {%- endif -%}
  {%- set properties = {} -%}
  {%- for key, value in (spark_incr.setting('tblproperties') or {}).items() -%}
    {%- do properties.update({key | string: value | string}) -%}
  {%- endfor -%}
  {%- if properties -%}{%- do lines.append('TBLPROPERTIES ' ~ tojson(properties, sort_keys=true)) -%}{%- endif -%}
  {{ return(lines) }}
{%- endmacro %}


{# dbt-core wants keys that are not its own under meta; where they stood before, they go on to count. #}
{% macro setting(name) -%}
  {%- set meta = config.get('meta') or {} -%}
  {{ return(meta[name] if name in meta else config.get(name)) }}
{%- endmacro %}


{% macro incremental_view_properties(relation) -%}
  {%- for row in run_query('DESCRIBE EXTENDED INCREMENTAL VIEW ' ~ relation) if row[0] == 'Properties' -%}
    {{ return(row[1]) }}
  {%- endfor -%}
  {{ return('') }}
{%- endmacro %}


{% macro literal(value) -%}
  {{- "'" ~ (value | string | replace('\\', '\\\\') | replace("'", "\\'")) ~ "'" -}}
{%- endmacro %}


{% macro is_incremental_view(relation) -%}
  {{ return('incremental=view' in (relation.information or '')) }}
{%- endmacro %}
