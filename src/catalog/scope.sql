-- Where this session looks for names and how careful it wants untwin to be, as one JSON document in one row. Qualified, without backslashes,
-- and in hexadecimal if a name is not ASCII, for the reasons that load.sql gives.
SELECT CASE WHEN pg_catalog.octet_length(d.text) OPERATOR(pg_catalog.=) pg_catalog.length(d.text) THEN d.text
            ELSE pg_catalog.encode(pg_catalog.convert_to(d.text,
                     CASE WHEN pg_catalog.getdatabaseencoding() OPERATOR(pg_catalog.=) 'SQL_ASCII'
                          THEN 'SQL_ASCII' ELSE 'UTF8' END), 'hex') END
  FROM (SELECT pg_catalog.json_build_object(
            -- Listed in the setting, pg_temp has a place of its own; but before the first temporary table,
            -- current_schemas() does not show it, or even makes the schema, which is not for us to do.
            'path', CASE WHEN l.listed AND pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.=) 0::pg_catalog.oid
                         THEN '{}'::pg_catalog.name[] ELSE pg_catalog.current_schemas(false) END,
            'temporary_listed', l.listed,
            -- Postgres passes over the schemas on the path that the current role may not use.
            'closed', (SELECT pg_catalog.json_agg(n.nspname) FROM pg_catalog.pg_namespace n
                        WHERE NOT pg_catalog.has_schema_privilege(n.oid, 'USAGE')
                          AND NOT pg_catalog.starts_with(n.nspname::pg_catalog.text, 'pg_t')),
            'mode', pg_catalog.current_setting('untwin.mode', true),
            'temporary', (SELECT pg_catalog.json_agg(c.relname) FROM pg_catalog.pg_class c
                           WHERE pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0::pg_catalog.oid
                             AND c.relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()
                             AND c.relkind OPERATOR(pg_catalog.=)
                                 ANY ('{r,p,v,m,f,S,c}'::pg_catalog."char"[]))
        )::pg_catalog.text AS text
          FROM (SELECT pg_catalog.strpos(pg_catalog.lower(pg_catalog.current_setting('search_path')), 'pg_temp')
                       OPERATOR(pg_catalog.>) 0 AS listed) l
        OFFSET 0) d
