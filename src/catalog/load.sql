-- What untwin needs to know of a database, as one JSON document in one row.
--
-- The session that runs this may have any search_path and any setting, so: every function, type and
-- operator is qualified, IN and IS DISTINCT FROM are avoided (they look up "=" on the path), and no
-- string holds a backslash (standard_conforming_strings). Nothing here takes a lock on a user's
-- table: a login must not wait for somebody's ALTER TABLE. Expressions are judged by the function
-- oids in their stored trees, since printed names depend on the path.
--
-- The planner guesses that the sets below are small, and would join two of them by nested loops. So
-- sets are joined with catalogs, by index; and "(x = ANY (SELECT ...)) IS TRUE" is a hashed look-up.
WITH RECURSIVE
relation AS MATERIALIZED (
    SELECT c.oid, c.relnamespace, c.relname, c.relkind,
           n.nspname OPERATOR(pg_catalog.=) ANY ('{pg_catalog,information_schema}'::pg_catalog.name[]) AS system
      FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
     WHERE c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p,v,m,f}'::pg_catalog."char"[])
       AND NOT pg_catalog.starts_with(n.nspname::pg_catalog.text, 'pg_temp_')
       AND NOT pg_catalog.starts_with(n.nspname::pg_catalog.text, 'pg_toast')
),

-- Types that can hold a UUID: uuid, text, varchar, char, citext, and domains over them.
domain AS (
    SELECT t.oid, t.typbasetype AS base
      FROM pg_catalog.pg_type t
     WHERE t.typtype OPERATOR(pg_catalog.=) 'd'
    UNION ALL
    SELECT d.oid, t.typbasetype
      FROM domain d
      JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) d.base
     WHERE t.typtype OPERATOR(pg_catalog.=) 'd'
),
base_type AS (
    SELECT t.oid,
           CASE WHEN t.oid OPERATOR(pg_catalog.=) 2950::pg_catalog.oid THEN 'u'
                WHEN t.oid OPERATOR(pg_catalog.=) 1042::pg_catalog.oid THEN 'c'
                WHEN t.typname OPERATOR(pg_catalog.=) 'citext' THEN 'i'
                ELSE 't' END AS kind
      FROM pg_catalog.pg_type t
     WHERE t.oid OPERATOR(pg_catalog.=) ANY ('{25,1042,1043,2950}'::pg_catalog.oid[])
        OR (t.typname OPERATOR(pg_catalog.=) 'citext' AND t.typtype OPERATOR(pg_catalog.=) 'b')
),
key_type AS MATERIALIZED (
    SELECT b.oid, b.kind FROM base_type b
    UNION ALL
    SELECT d.oid, b.kind FROM domain d JOIN base_type b ON b.oid OPERATOR(pg_catalog.=) d.base
),

-- Unique B-tree indexes with such a column. Exclusion and temporal (WITHOUT OVERLAPS) keys are not B-trees.
key_index AS MATERIALIZED (
    SELECT i.indexrelid, i.indrelid,
           pg_catalog.json_agg(k.attnum ORDER BY k.n) AS attnums,
           -- Columns whose equality is not that of their type's bytes.
           pg_catalog.bool_or(
               COALESCE(NOT col.collisdeterministic, false)
               OR (NOT op.opcdefault AND op.opcnamespace OPERATOR(pg_catalog.<>) 11::pg_catalog.oid)
           ) AS odd
      FROM pg_catalog.pg_index i
      JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.indexrelid
     CROSS JOIN LATERAL ROWS FROM (
               pg_catalog.unnest(i.indkey::pg_catalog.int2[]),
               pg_catalog.unnest(i.indcollation::pg_catalog.oid[]),
               pg_catalog.unnest(i.indclass::pg_catalog.oid[])
           ) WITH ORDINALITY AS k (attnum, coll, opclass, n)
      JOIN pg_catalog.pg_opclass op ON op.oid OPERATOR(pg_catalog.=) k.opclass
      LEFT JOIN pg_catalog.pg_collation col ON col.oid OPERATOR(pg_catalog.=) k.coll
      LEFT JOIN pg_catalog.pg_attribute a
        ON a.attrelid OPERATOR(pg_catalog.=) i.indrelid AND a.attnum OPERATOR(pg_catalog.=) k.attnum
     WHERE i.indisunique
       AND NOT i.indisexclusion
       AND c.relam OPERATOR(pg_catalog.=) 403::pg_catalog.oid
       AND k.n OPERATOR(pg_catalog.<=) i.indnkeyatts
       AND (i.indrelid OPERATOR(pg_catalog.=) ANY (
               SELECT r.oid FROM relation r
                WHERE NOT r.system
                  AND r.relkind OPERATOR(pg_catalog.=) ANY ('{r,p}'::pg_catalog."char"[]))) IS TRUE
     GROUP BY i.indexrelid, i.indrelid
    HAVING pg_catalog.bool_or((a.atttypid OPERATOR(pg_catalog.=) ANY (SELECT t.oid FROM key_type t)) IS TRUE)
),
keyed AS MATERIALIZED (SELECT DISTINCT x.indrelid AS oid FROM key_index x),

-- Foreign keys. The rows that Postgres keeps for each partition of the referenced table say nothing new.
foreign_key AS MATERIALIZED (
    SELECT c.conname, c.conrelid, c.confrelid, c.conkey, c.confkey, c.confdeltype, c.confupdtype, c.condeferrable
      FROM pg_catalog.pg_constraint c
      LEFT JOIN pg_catalog.pg_constraint up ON up.oid OPERATOR(pg_catalog.=) c.conparentid
     WHERE c.contype OPERATOR(pg_catalog.=) 'f'
       AND (up.oid IS NULL OR up.conrelid OPERATOR(pg_catalog.<>) c.conrelid)
),

-- Which relations a view (or a table with a rule) stands on.
rule_edge AS MATERIALIZED (
    SELECT DISTINCT w.ev_class, d.refobjid
      FROM pg_catalog.pg_rewrite w
      JOIN pg_catalog.pg_depend d
        ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_rewrite'::pg_catalog.regclass::pg_catalog.oid
       AND d.objid OPERATOR(pg_catalog.=) w.oid
     WHERE (w.ev_class OPERATOR(pg_catalog.=) ANY (
               SELECT r.oid FROM relation r
                WHERE NOT r.system AND r.relkind OPERATOR(pg_catalog.<>) 'm')) IS TRUE
       AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid
       AND d.refobjid OPERATOR(pg_catalog.<>) w.ev_class
),
-- Views of one keyed table without sub-queries: each column's origin stands in the stored tree.
plain_view AS MATERIALIZED (
    SELECT e.ev_class, e.base, (
               SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
                          m.found[1]::pg_catalog.int8, m.found[2]::pg_catalog.int8))
                 FROM pg_catalog.regexp_matches(w.ev_action::pg_catalog.text,
                          ':resno ([0-9]+) :resname [^:]+ :ressortgroupref [0-9]+ :resorigtbl '
                          OPERATOR(pg_catalog.||) e.base::pg_catalog.text
                          OPERATOR(pg_catalog.||) ' :resorigcol ([0-9]+) ', 'g') AS m (found)
                WHERE pg_catalog.array_length(pg_catalog.string_to_array(
                          w.ev_action::pg_catalog.text, '{QUERY '), 1) OPERATOR(pg_catalog.=) 2
           ) AS origins
      FROM (SELECT ev_class, pg_catalog.min(refobjid) AS base
              FROM rule_edge GROUP BY ev_class
            HAVING pg_catalog.count(*) OPERATOR(pg_catalog.=) 1) e
      JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) e.ev_class
      JOIN pg_catalog.pg_rewrite w ON w.ev_class OPERATOR(pg_catalog.=) e.ev_class
     WHERE c.relkind OPERATOR(pg_catalog.=) 'v'
       AND w.rulename OPERATOR(pg_catalog.=) '_RETURN'
       AND (e.base OPERATOR(pg_catalog.=) ANY (SELECT k.oid FROM keyed k)) IS TRUE
),

-- Tables whose columns matter: keyed ones, their children, plain views, foreign tables.
detailed AS MATERIALIZED (
    SELECT k.oid FROM keyed k
    UNION
    SELECT f.conrelid FROM foreign_key f
     WHERE (f.confrelid OPERATOR(pg_catalog.=) ANY (SELECT k.oid FROM keyed k)) IS TRUE
    UNION
    SELECT v.ev_class FROM plain_view v WHERE v.origins IS NOT NULL
    UNION
    SELECT r.oid FROM relation r WHERE r.relkind OPERATOR(pg_catalog.=) 'f'
),

attribute AS MATERIALIZED (
    SELECT a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attidentity, a.attgenerated
      FROM detailed t
      JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) t.oid
     WHERE a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped
),

-- How far the text of a value tells the value, of other types than those of keys: 0: always the same; 1: as the
-- settings and the time say by which it is read; 2: not at all, it may name what a path leads to.
reading AS (
    SELECT DISTINCT a.atttypid AS type, a.atttypid AS part FROM attribute a
    UNION
    -- A domain is read as its base, an array or a range as its elements.
    SELECT r.type, e.part
      FROM reading r
      JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) r.part
      LEFT JOIN pg_catalog.pg_range g ON g.rngtypid OPERATOR(pg_catalog.=) t.oid
     CROSS JOIN LATERAL (VALUES (t.typbasetype), (t.typelem), (g.rngsubtype)) AS e (part)
     WHERE e.part OPERATOR(pg_catalog.<>) 0::pg_catalog.oid
       AND (t.typtype OPERATOR(pg_catalog.<>) 'b' OR t.typinput::pg_catalog.oid OPERATOR(pg_catalog.=) 750::pg_catalog.oid)
),
read_as AS (
    SELECT r.type, pg_catalog.max(
               CASE WHEN p.provolatile OPERATOR(pg_catalog.=) 'i' THEN 0
                    WHEN t.typtype OPERATOR(pg_catalog.=) ANY ('{d,e,r}'::pg_catalog."char"[]) THEN 0
                    -- Arrays, money, date, time and interval.
                    WHEN t.typinput::pg_catalog.oid OPERATOR(pg_catalog.=) 750::pg_catalog.oid
                      OR t.oid OPERATOR(pg_catalog.=) ANY ('{790,1082,1083,1114,1184,1186,1266}'::pg_catalog.oid[])
                    THEN 1 ELSE 2 END) AS rank
      FROM reading r
      JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) r.part
      JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) t.typinput::pg_catalog.oid
     GROUP BY r.type
),

-- Defaults of columns (owner: table, part: number) and of domains (owner: type, part: 0).
expression AS (
    SELECT d.adrelid AS owner, d.adnum AS part, a.attnotnull AS filled, d.adbin::pg_catalog.text AS tree,
           -- A partition shares its parents' keys, and may have defaults of its own.
           EXISTS (
               SELECT
                 FROM pg_catalog.pg_partition_ancestors(d.adrelid::pg_catalog.regclass) AS up (relation)
                 JOIN pg_catalog.pg_attribute ua
                   ON ua.attrelid OPERATOR(pg_catalog.=) up.relation::pg_catalog.oid
                  AND ua.attname OPERATOR(pg_catalog.=) a.attname
                 LEFT JOIN pg_catalog.pg_attrdef ud
                   ON ud.adrelid OPERATOR(pg_catalog.=) ua.attrelid AND ud.adnum OPERATOR(pg_catalog.=) ua.attnum
                WHERE COALESCE(pg_catalog.pg_get_expr(ud.adbin, ud.adrelid), '') OPERATOR(pg_catalog.<>)
                      pg_catalog.pg_get_expr(d.adbin, d.adrelid)
           ) AS own
      FROM detailed t
      JOIN pg_catalog.pg_attrdef d ON d.adrelid OPERATOR(pg_catalog.=) t.oid
      JOIN pg_catalog.pg_attribute a
        ON a.attrelid OPERATOR(pg_catalog.=) d.adrelid AND a.attnum OPERATOR(pg_catalog.=) d.adnum
     WHERE a.attgenerated OPERATOR(pg_catalog.=) ''
    UNION ALL
    SELECT t.oid, 0::pg_catalog.int2, false, t.typdefaultbin::pg_catalog.text, false
      FROM pg_catalog.pg_type t
     WHERE t.typtype OPERATOR(pg_catalog.=) 'd' AND t.typdefaultbin IS NOT NULL
),
-- n: NULL. s: the same for every row of a transaction. v: not so, or not known to be so.
default_kind AS (
    SELECT e.owner, e.part,
           CASE WHEN e.tree OPERATOR(pg_catalog.~) '^[{](RELABELTYPE :arg [{])?CONST .*:constisnull true' THEN 'n'
                WHEN e.own THEN 'v'
                -- Of the stable functions only those named here keep still for a whole transaction:
                -- statement_timestamp() and current_setting() do not.
                WHEN EXISTS (
                    SELECT
                      FROM pg_catalog.regexp_matches(e.tree, 'funcid ([0-9]+)', 'g') AS m (found)
                      LEFT JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) m.found[1]::pg_catalog.oid
                     WHERE p.provolatile IS NULL
                        OR p.provolatile OPERATOR(pg_catalog.=) 'v'
                        -- What a user's function is declared as is a claim; one in C, an extension's, is believed.
                        OR (p.oid OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid
                            AND p.prolang OPERATOR(pg_catalog.<>) ALL ('{12,13}'::pg_catalog.oid[]))
                        OR (p.provolatile OPERATOR(pg_catalog.=) 's' AND NOT (
                               p.pronamespace OPERATOR(pg_catalog.=) 11::pg_catalog.oid
                               AND p.proname OPERATOR(pg_catalog.=) ANY ('{now,transaction_timestamp,timezone,
                                   date,timestamp,timestamptz,time,timetz,timestamptz_pl_interval,
                                   timestamptz_mi_interval,interval_pl_timestamptz,date_trunc,date_part,extract,
                                   to_char,to_timestamp,to_date,age,concat,concat_ws,format,to_json,to_jsonb,
                                   json_build_object,jsonb_build_object,json_build_array,jsonb_build_array,
                                   array_to_string}'::pg_catalog.name[])))
                ) THEN 'v'
                -- The current user, role or schema, which a SET may change.
                WHEN e.tree OPERATOR(pg_catalog.~) 'SQLVALUEFUNCTION :op (9|10|11|12|14) |NEXTVALUEEXPR' THEN 'v'
                WHEN e.filled THEN 's'
                -- A NULL equals nothing, so a column that may be NULL needs a default that cannot be:
                -- a constant, the time, and casts of these (varchar, char, timestamp, date).
                WHEN e.tree OPERATOR(pg_catalog.~)
                     '^[{](CONST|RELABELTYPE :arg [{]CONST|SQLVALUEFUNCTION|FUNCEXPR :funcid (1299|2647|66[89]|2027|1178)) '
                 AND pg_catalog.strpos(e.tree, ':constisnull true') OPERATOR(pg_catalog.=) 0
                THEN 's'
                ELSE 'v' END AS kind
      FROM expression e
),

-- Functions that statements can call and that may change rows, or call one that does: a volatile function says
-- so; a STABLE or IMMUTABLE one may still call it. Which ones do is decided from their bodies, by the reader.
known_harmless AS (
    SELECT d.objid
      FROM pg_catalog.pg_depend d
      JOIN pg_catalog.pg_extension e ON e.oid OPERATOR(pg_catalog.=) d.refobjid
     WHERE d.classid OPERATOR(pg_catalog.=) 1255::pg_catalog.oid
       AND d.refclassid OPERATOR(pg_catalog.=) 3079::pg_catalog.oid
       AND d.deptype OPERATOR(pg_catalog.=) 'e'
       AND e.extname OPERATOR(pg_catalog.=) ANY (
               '{uuid-ossp,pgcrypto,citext,pg_trgm,hstore,ltree,pg_stat_statements,pg_uuidv7,pgx_ulid,ulid,snowflake,pg_idkit,
                 pg_hashids,unaccent,fuzzystrmatch,tablefunc,intarray,cube,earthdistance,isn,seg,btree_gin,btree_gist,
                 postgis,vector,tsm_system_rows}'::pg_catalog.name[])
),
callable AS MATERIALIZED (
    -- Functions that return trigger or event_trigger cannot be called.
    SELECT p.oid, n.nspname, p.proname, p.pronamespace, l.lanname, p.provolatile OPERATOR(pg_catalog.=) 'v' AS volatile
      FROM pg_catalog.pg_proc p
      JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
      JOIN pg_catalog.pg_language l ON l.oid OPERATOR(pg_catalog.=) p.prolang
     WHERE p.prorettype OPERATOR(pg_catalog.<>) ALL ('{2279,3838}'::pg_catalog.oid[])
       AND p.prokind OPERATOR(pg_catalog.<>) 'a'
       AND n.nspname OPERATOR(pg_catalog.<>) ALL ('{pg_catalog,information_schema}'::pg_catalog.name[])
       -- What is written in C and says that it changes nothing is believed, as are input functions of types.
       AND (p.provolatile OPERATOR(pg_catalog.=) 'v'
            OR l.lanname OPERATOR(pg_catalog.<>) ALL ('{c,internal}'::pg_catalog.name[]))
       AND NOT (l.lanname OPERATOR(pg_catalog.=) 'c'
                AND p.proargtypes[0] OPERATOR(pg_catalog.=) ANY ('{2275,2281}'::pg_catalog.oid[]))
       AND (p.oid OPERATOR(pg_catalog.=) ANY (SELECT h.objid FROM known_harmless h)) IS NOT TRUE
),

-- What calls what, from the functions above to whatever calls them in the end, each as a kind and an oid.
-- p: function; o: operator; t: type, whose values it makes or checks; w: type that a cast converts from or to;
-- r: relation, when it is read; c: table, when rows are put into it.
call AS (
    SELECT ''::pg_catalog.text AS from_kind, 0::pg_catalog.oid AS from_oid, 'p'::pg_catalog.text AS kind, f.oid
      FROM callable f
    UNION
    SELECT e.kind, e.oid, u.kind, u.oid
      FROM call e
      JOIN pg_catalog.pg_depend d
        ON d.refclassid OPERATOR(pg_catalog.=) CASE WHEN e.kind OPERATOR(pg_catalog.=) 'p' THEN 1255::pg_catalog.oid
                                                      WHEN e.kind OPERATOR(pg_catalog.=) 'o' THEN 2617::pg_catalog.oid
                                                      WHEN e.kind OPERATOR(pg_catalog.=) 't' THEN 1247::pg_catalog.oid END
       AND d.refobjid OPERATOR(pg_catalog.=) e.oid
     CROSS JOIN LATERAL (
           SELECT 'p', d.objid WHERE d.classid OPERATOR(pg_catalog.=) 1255::pg_catalog.oid
           UNION ALL
           SELECT 'o', d.objid WHERE d.classid OPERATOR(pg_catalog.=) 2617::pg_catalog.oid
           UNION ALL
           SELECT 't', d.objid WHERE d.classid OPERATOR(pg_catalog.=) 1247::pg_catalog.oid
           UNION ALL
           -- An assignment converts to the type of a column without a word.
           SELECT v.kind, v.oid
             FROM pg_catalog.pg_cast c
            CROSS JOIN LATERAL (VALUES ('w', c.casttarget), ('w', c.castsource),
                   (CASE WHEN c.castcontext OPERATOR(pg_catalog.<>) 'e' THEN 't' END, c.casttarget)) AS v (kind, oid)
            WHERE d.classid OPERATOR(pg_catalog.=) 2605::pg_catalog.oid
              AND c.oid OPERATOR(pg_catalog.=) d.objid AND v.kind IS NOT NULL
           UNION ALL
           SELECT 'c', a.adrelid
             FROM pg_catalog.pg_attrdef a
            WHERE d.classid OPERATOR(pg_catalog.=) 2604::pg_catalog.oid AND a.oid OPERATOR(pg_catalog.=) d.objid
           UNION ALL
           SELECT v.kind, v.oid
             FROM pg_catalog.pg_constraint c
            CROSS JOIN LATERAL (VALUES ('t', c.contypid), ('c', c.conrelid)) AS v (kind, oid)
            WHERE v.oid OPERATOR(pg_catalog.<>) 0::pg_catalog.oid AND d.classid OPERATOR(pg_catalog.=) 2606::pg_catalog.oid AND c.oid OPERATOR(pg_catalog.=) d.objid
           UNION ALL
           -- An index, a partition key, or a column of the type.
           SELECT 'c', i.indrelid
             FROM pg_catalog.pg_index i
            WHERE d.classid OPERATOR(pg_catalog.=) 1259::pg_catalog.oid AND i.indexrelid OPERATOR(pg_catalog.=) d.objid
           UNION ALL
           SELECT CASE WHEN c.relkind OPERATOR(pg_catalog.=) 'c' THEN 't' ELSE 'c' END,
                  CASE WHEN c.relkind OPERATOR(pg_catalog.=) 'c' THEN c.reltype ELSE c.oid END
             FROM pg_catalog.pg_class c
            WHERE d.classid OPERATOR(pg_catalog.=) 1259::pg_catalog.oid AND c.oid OPERATOR(pg_catalog.=) d.objid
              AND c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p,f,c}'::pg_catalog."char"[])
           UNION ALL
           -- The WHEN of a trigger.
           SELECT 'c', t.tgrelid
             FROM pg_catalog.pg_trigger t
            WHERE d.classid OPERATOR(pg_catalog.=) 2620::pg_catalog.oid AND t.oid OPERATOR(pg_catalog.=) d.objid
           UNION ALL
           SELECT 'r', w.ev_class
             FROM pg_catalog.pg_rewrite w
            WHERE d.classid OPERATOR(pg_catalog.=) 2618::pg_catalog.oid AND w.oid OPERATOR(pg_catalog.=) d.objid
              AND w.ev_type OPERATOR(pg_catalog.=) '1'
           UNION ALL
           SELECT k.kind, p.polrelid
             FROM pg_catalog.pg_policy p
            CROSS JOIN (VALUES ('r'), ('c')) AS k (kind)
            WHERE d.classid OPERATOR(pg_catalog.=) 3256::pg_catalog.oid AND p.oid OPERATOR(pg_catalog.=) d.objid
           ) AS u (kind, oid)
),
call_edge AS MATERIALIZED (SELECT * FROM call e WHERE e.from_oid OPERATOR(pg_catalog.<>) 0::pg_catalog.oid),

-- Names by which a statement, or the body of a function, calls what is not among the functions above.
call_name AS (
    SELECT e.kind, e.oid, n.nspname AS schema, p.proname AS name
      FROM call_edge e
      JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) e.oid
      JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
     WHERE e.kind OPERATOR(pg_catalog.=) 'p'
    UNION
    SELECT e.kind, e.oid, NULL, p.oprname
      FROM call_edge e
      JOIN pg_catalog.pg_operator p ON p.oid OPERATOR(pg_catalog.=) e.oid
     WHERE e.kind OPERATOR(pg_catalog.=) 'o'
    UNION
    -- A cast from a type of Postgres' own is told by the type that it leads to, and the other way round.
    SELECT e.kind, e.oid, NULL, t.typname
      FROM call_edge e
      JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) e.oid
     WHERE e.kind OPERATOR(pg_catalog.=) ANY ('{t,w}'::pg_catalog.text[])
       AND t.typnamespace OPERATOR(pg_catalog.<>) 11::pg_catalog.oid
),

-- Triggers that users made, with the copies of them that partitions have.
user_trigger AS MATERIALIZED (
    SELECT DISTINCT t.tgrelid, t.tgtype, t.tgfoid
      FROM pg_catalog.pg_trigger t
      JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) t.tgfoid
     WHERE t.tgenabled OPERATOR(pg_catalog.<>) 'D'
       AND (NOT t.tgisinternal OR (t.tgparentid OPERATOR(pg_catalog.<>) 0::pg_catalog.oid
                                   AND p.pronamespace OPERATOR(pg_catalog.<>) 11::pg_catalog.oid))
),
trigger_function AS (
    SELECT p.oid, p.pronamespace, p.proname,
           CASE WHEN p.pronamespace OPERATOR(pg_catalog.=) 11::pg_catalog.oid THEN '' ELSE l.lanname::pg_catalog.text END AS language
      FROM (SELECT DISTINCT tgfoid FROM user_trigger) t
      JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) t.tgfoid
      JOIN pg_catalog.pg_language l ON l.oid OPERATOR(pg_catalog.=) p.prolang
),
-- A body with a word that may change rows is condemned here, and need not travel. A word right before a quote
-- is a string, as in TG_OP = 'DELETE'. A body that was parsed when it was defined has no text: one that reads
-- and changes no relation does what the functions do that it is recorded to call.
body AS MATERIALIZED (
    SELECT f.oid,
           CASE WHEN f.language OPERATOR(pg_catalog.<>) ALL ('{sql,plpgsql}'::pg_catalog.text[]) THEN NULL
                WHEN p.prosrc OPERATOR(pg_catalog.=) '' AND f.language OPERATOR(pg_catalog.=) 'sql' THEN
                     CASE WHEN (pg_catalog.to_jsonb(p) OPERATOR(pg_catalog.->>) 'prosqlbody')
                               OPERATOR(pg_catalog.~) ':commandType [2-9]|:rtekind 0' THEN NULL ELSE '' END
                WHEN pg_catalog.length(p.prosrc) OPERATOR(pg_catalog.<) 65536
                 AND NOT p.prosrc OPERATOR(pg_catalog.~*)
                     '[[:<:]](delete|update|truncate|merge|execute|perform|call|drop|alter|refresh)[[:>:]](?!'')'
                THEN p.prosrc END AS text,
           -- Whether it may give names another meaning: of relations, of prepared statements.
           p.prosrc OPERATOR(pg_catalog.~*)
               '[[:<:]](search_path|set_config|pg_temp|(create|local|global|into)[[:space:]]+temp(orary)?|discard|set[[:space:]]+((local|session)[[:space:]]+)?(role|session[[:space:]]+authorization))[[:>:]]' AS moves_names,
           p.prosrc OPERATOR(pg_catalog.~*) '[[:<:]](deallocate|discard)[[:>:]]' AS deallocates,
           p.prosrc
      FROM (SELECT t.oid, t.language FROM trigger_function t
             WHERE t.language OPERATOR(pg_catalog.<>) ''
            UNION ALL
            SELECT c.oid, c.lanname::pg_catalog.text FROM callable c) f
      JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) f.oid
),

-- A body that cannot be read any further here may name a function that moves names.
mover AS (
    SELECT pg_catalog.concat('[[:<:]](', pg_catalog.string_agg(f.proname, '|'), ')[[:>:]]') AS pattern
      FROM body b
      JOIN callable f ON f.oid OPERATOR(pg_catalog.=) b.oid
     WHERE b.moves_names AND NOT f.proname OPERATOR(pg_catalog.~) '[^A-Za-z0-9_]'
    HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 0
),
moving AS MATERIALIZED (
    SELECT b.oid FROM body b LEFT JOIN mover m ON true
     WHERE b.moves_names OR b.prosrc OPERATOR(pg_catalog.~*) m.pattern
),

document AS MATERIALIZED (
    SELECT pg_catalog.json_build_object(
        -- Words that must be quoted as names.
        'keywords', (SELECT pg_catalog.json_agg(w.word) FROM pg_catalog.pg_get_keywords() w
                      WHERE w.catcode OPERATOR(pg_catalog.<>) 'U'),
        'schemas', (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(n.oid::pg_catalog.int8, n.nspname))
                      FROM pg_catalog.pg_namespace n),
        'relations', (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
                             r.oid::pg_catalog.int8, r.relnamespace::pg_catalog.int8, r.relname, r.relkind))
                        FROM relation r),
        'inherits', (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
                            h.inhrelid::pg_catalog.int8, h.inhparent::pg_catalog.int8, c.relispartition))
                       FROM pg_catalog.pg_inherits h
                       JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) h.inhrelid
                      WHERE c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p,f}'::pg_catalog."char"[])),
        'types', (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
                         t.atttypid::pg_catalog.int8, t.atttypmod,
                         pg_catalog.format_type(t.atttypid, t.atttypmod),
                         COALESCE(k.kind, pg_catalog.substr('osn', r.rank OPERATOR(pg_catalog.+) 1, 1), 'n')))
                    FROM (SELECT DISTINCT a.atttypid, a.atttypmod FROM attribute a) t
                    LEFT JOIN read_as r ON r.type OPERATOR(pg_catalog.=) t.atttypid
                    LEFT JOIN key_type k ON k.oid OPERATOR(pg_catalog.=) t.atttypid),
        'columns', (SELECT pg_catalog.json_agg(t.entry)
                      FROM (SELECT pg_catalog.json_build_array(a.attrelid::pg_catalog.int8, pg_catalog.json_agg(
                                       pg_catalog.json_build_array(a.attnum, a.attname, a.atttypid::pg_catalog.int8,
                                           a.atttypmod, a.attgenerated OPERATOR(pg_catalog.<>) '',
                                           a.attidentity OPERATOR(pg_catalog.<>) '')
                                       ORDER BY a.attnum)) AS entry
                              FROM attribute a
                             GROUP BY a.attrelid) t),
        'defaults', (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
                            d.owner::pg_catalog.int8, d.part, d.kind))
                       FROM default_kind d),
        'indexes', (SELECT pg_catalog.json_agg(pg_catalog.json_build_object(
                           'oid', i.indexrelid::pg_catalog.int8, 'table', i.indrelid::pg_catalog.int8,
                           'parent', h.inhparent::pg_catalog.int8,
                           'name', c.relname, 'columns', x.attnums, 'odd', x.odd,
                           'valid', i.indisvalid, 'immediate', i.indimmediate,
                           'partial', i.indpred IS NOT NULL, 'expression', i.indexprs IS NOT NULL,
                           -- Known from Postgres 15 on.
                           'nulls_not_distinct', COALESCE((pg_catalog.to_jsonb(i)
                               OPERATOR(pg_catalog.->>) 'indnullsnotdistinct')::pg_catalog.bool, false)))
                      FROM key_index x
                      JOIN pg_catalog.pg_index i ON i.indexrelid OPERATOR(pg_catalog.=) x.indexrelid
                      JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) x.indexrelid
                      LEFT JOIN pg_catalog.pg_inherits h ON h.inhrelid OPERATOR(pg_catalog.=) x.indexrelid),
        'foreign_keys', (SELECT pg_catalog.json_agg(pg_catalog.json_build_object(
                                'name', f.conname, 'child', f.conrelid::pg_catalog.int8,
                                'parent', f.confrelid::pg_catalog.int8,
                                'columns', f.conkey, 'parent_columns', f.confkey,
                                'delete', f.confdeltype, 'update', f.confupdtype,
                                'deferrable', f.condeferrable))
                           FROM foreign_key f),
        'triggers', (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
                            t.tgrelid::pg_catalog.int8, t.tgtype, t.tgfoid::pg_catalog.int8))
                       FROM user_trigger t),
        'trigger_functions', (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
                                     f.oid::pg_catalog.int8, f.pronamespace::pg_catalog.int8, f.proname,
                                     f.language, b.text))
                                FROM trigger_function f
                                LEFT JOIN body b ON b.oid OPERATOR(pg_catalog.=) f.oid),
        'callables', (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
                             f.oid::pg_catalog.int8, f.nspname, f.proname, f.lanname, f.volatile,
                             b.text, b.deallocates))
                        FROM callable f
                        JOIN body b ON b.oid OPERATOR(pg_catalog.=) f.oid),
        -- Functions that may give names another meaning.
        'moving', (SELECT pg_catalog.json_agg(m.oid::pg_catalog.int8) FROM moving m),
        -- Functions of one row, which can be written like a column of it.
        'row_functions', (SELECT pg_catalog.json_agg(f.oid::pg_catalog.int8)
                            FROM callable f
                            JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) f.oid
                            JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) p.proargtypes[0]
                           WHERE p.pronargs OPERATOR(pg_catalog.=) 1 AND t.typtype OPERATOR(pg_catalog.=) 'c'),
        'calls', (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
                         e.from_kind, e.from_oid::pg_catalog.int8, e.kind, e.oid::pg_catalog.int8))
                    FROM call_edge e),
        'call_names', (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
                              c.kind, c.oid::pg_catalog.int8, c.schema, c.name))
                         FROM call_name c),
        -- Rules other than a view's own, by event: 2 UPDATE, 3 INSERT, 4 DELETE.
        'rules', (SELECT pg_catalog.json_agg(DISTINCT pg_catalog.jsonb_build_array(
                         w.ev_class::pg_catalog.int8, w.ev_type))
                    FROM pg_catalog.pg_rewrite w
                   WHERE w.ev_type OPERATOR(pg_catalog.<>) '1' AND w.ev_enabled OPERATOR(pg_catalog.<>) 'D'),
        'stands_on', (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
                             e.ev_class::pg_catalog.int8, e.refobjid::pg_catalog.int8))
                        FROM rule_edge e),
        'view_columns', (SELECT pg_catalog.json_agg(pg_catalog.json_build_array(
                                v.ev_class::pg_catalog.int8, v.base::pg_catalog.int8, v.origins))
                           FROM plain_view v WHERE v.origins IS NOT NULL)
    )::pg_catalog.text AS text
)
-- Names that are not ASCII travel as hexadecimal UTF-8, whatever the client's encoding.
SELECT CASE WHEN pg_catalog.octet_length(d.text) OPERATOR(pg_catalog.=) pg_catalog.length(d.text) THEN d.text
            ELSE pg_catalog.encode(pg_catalog.convert_to(d.text,
                     CASE WHEN pg_catalog.getdatabaseencoding() OPERATOR(pg_catalog.=) 'SQL_ASCII'
                          THEN 'SQL_ASCII' ELSE 'UTF8' END), 'hex') END
  FROM document d
