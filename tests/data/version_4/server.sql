CREATE TABLE finetune_results (
    run_key text NOT NULL COLLATE pg_catalog."C",
    name text,
    sweep text,
    factor text,
    variant text,
    asset text,
    fold bigint,
    cost_bps double precision,
    metrics text NOT NULL,
    value text,
    buys bigint,
    elapsed_s double precision,
    run_status text NOT NULL,
    attempt bigint NOT NULL,
    error text,
    code_fingerprint text,
    config_fingerprint text,
    data_fingerprint text,
    worker text,
    marked boolean DEFAULT false NOT NULL,
    run_id text,
    written_at double precision NOT NULL,
    digest text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE finetune_runs (
    id text NOT NULL,
    sweep text NOT NULL,
    started double precision NOT NULL,
    ended double precision,
    status text NOT NULL,
    expected bigint NOT NULL,
    target text,
    reason text,
    digest text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE ftf_config (
    id bigint NOT NULL,
    version bigint NOT NULL,
    base_env jsonb NOT NULL,
    factor text,
    variant text,
    reason text NOT NULL,
    written_at double precision NOT NULL,
    CONSTRAINT ftf_config_id_check CHECK ((id = 1))
);
CREATE TABLE ftf_config_history (
    version bigint NOT NULL,
    base_env jsonb NOT NULL,
    factor text,
    variant text,
    reason text NOT NULL,
    written_at double precision NOT NULL
);
CREATE TABLE scalable_attempts (
    run_key text NOT NULL COLLATE pg_catalog."C",
    attempt bigint NOT NULL,
    run_id text NOT NULL,
    started double precision NOT NULL,
    ended double precision,
    cause text,
    digest text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE scalable_counters (
    name text NOT NULL,
    last bigint NOT NULL
);
CREATE TABLE scalable_dead_letters (
    id text NOT NULL COLLATE pg_catalog."C",
    written_at double precision NOT NULL,
    reason text NOT NULL,
    tries bigint NOT NULL,
    kind text NOT NULL,
    content text NOT NULL
);
CREATE TABLE scalable_incidents (
    id text NOT NULL,
    sweep text,
    run text,
    kind text NOT NULL,
    worker text,
    started double precision NOT NULL,
    summary text NOT NULL,
    written_at double precision NOT NULL,
    digest text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE scalable_leases (
    id bigint NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    holder text NOT NULL,
    token bigint,
    requested_at double precision NOT NULL,
    heartbeat double precision NOT NULL,
    expires double precision NOT NULL
);
CREATE TABLE scalable_schema (
    version bigint NOT NULL
);
INSERT INTO finetune_results VALUES ('00000000000000000000000000000001', NULL, 'calibration', 'calibration', 'isotonic', 'AAVEUSDC', 0, 10, '{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}', NULL, 61, 41.5, 'finished', 1, NULL, 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', false, 'run-1', 100.5, '9222ea80c28e8f6bc861efd27c55e760');
INSERT INTO finetune_results VALUES ('00000000000000000000000000000003', NULL, 'calibration', 'calibration', '1', 'AAVEUSDC', 0, 2.5, '{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}', NULL, 61, 41.5, 'finished', 1, NULL, 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', false, 'run-1', 103, '8eb4842f5261eea1e996db316acdf6c5');
INSERT INTO finetune_results VALUES ('00000000000000000000000000000004', NULL, 'calibration', 'calibration', '1.0', 'AAVEUSDC', 1, 0, '{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}', NULL, 61, 41.5, 'finished', 1, NULL, 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', false, 'run-1', 104, '6af710b9eb77a257398056187254aced');
INSERT INTO finetune_results VALUES ('00000000000000000000000000000005', NULL, 'calibration', 'calibration', '"1"', 'AAVEUSDC', 2, 2.5, '{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}', NULL, 61, 41.5, 'finished', 1, NULL, 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', false, 'run-1', 105, '3c258fc4440aa924d84133b17d849230');
INSERT INTO finetune_results VALUES ('00000000000000000000000000000006', NULL, 'calibration', 'calibration', '"true"', 'AAVEUSDC', 0, 0, '{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}', NULL, 61, 41.5, 'finished', 1, NULL, 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', false, 'run-1', 106, 'a8fae2cc3e3ca1bca94d22b92492aff6');
INSERT INTO finetune_results VALUES ('00000000000000000000000000000007', NULL, 'calibration', 'calibration', '"null"', 'AAVEUSDC', 1, 2.5, '{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}', NULL, 61, 41.5, 'finished', 1, NULL, 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', false, 'run-1', 107, 'cb69c7e5c146bfac3aa6e77e4a2a034f');
INSERT INTO finetune_results VALUES ('00000000000000000000000000000008', NULL, 'calibration', 'calibration', '"NaN"', 'AAVEUSDC', 2, 0, '{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}', NULL, 61, 41.5, 'finished', 1, NULL, 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', false, 'run-1', 108, '2dc532b4e249927d212c357b445b34be');
INSERT INTO finetune_results VALUES ('00000000000000000000000000000009', NULL, 'calibration', 'calibration', '"\"1\""', 'AAVEUSDC', 0, 2.5, '{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}', NULL, 61, 41.5, 'finished', 1, NULL, 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', false, 'run-1', 109, 'f9bdae5ce478e7cc636049dc9598fb8f');
INSERT INTO finetune_results VALUES ('0000000000000000000000000000000a', NULL, 'calibration', 'calibration', '90d', 'AAVEUSDC', 1, 0, '{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}', NULL, 61, 41.5, 'finished', 1, NULL, 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', false, 'run-1', 110, 'e36e7e7d740b6181048dcaf036455740');
INSERT INTO finetune_results VALUES ('0000000000000000000000000000000b', NULL, 'calibration', 'calibration', 'a b/ü漢', 'AAVEUSDC', 2, 2.5, '{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}', NULL, 61, 41.5, 'finished', 1, NULL, 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', false, 'run-1', 111, '1d9286b0d3944f4488a36267d7bc2994');
INSERT INTO finetune_results VALUES ('0000000000000000000000000000000c', NULL, 'calibration', 'calibration', '[', 'AAVEUSDC', 0, 0, '{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}', NULL, 61, 41.5, 'finished', 1, NULL, 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', false, 'run-1', 112, '2f0fb2852cebd3930b56cedea4c128b0');
INSERT INTO finetune_results VALUES ('0000000000000000000000000000000d', NULL, 'calibration', 'calibration', '-0.5', 'AAVEUSDC', 1, 2.5, '{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}', NULL, 61, 41.5, 'finished', 1, NULL, 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', false, 'run-1', 113, '1515e8ec0f2f039cedae616e68d3515f');
INSERT INTO finetune_results VALUES ('0000000000000000000000000000000e', NULL, 'calibration', 'calibration', '1e+300', 'AAVEUSDC', 2, 0, '{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}', NULL, 61, 41.5, 'finished', 1, NULL, 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', false, 'run-1', 114, '5cfc0bd5b27fb7c03f3979fccb971415');
INSERT INTO finetune_results VALUES ('0000000000000000000000000000000f', NULL, 'calibration', 'calibration', '" 1 "', 'AAVEUSDC', 0, 2.5, '{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}', NULL, 61, 41.5, 'finished', 1, NULL, 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', false, 'run-1', 115, 'cf92bba26a64022a1d16f36083353f17');
INSERT INTO finetune_results VALUES ('00000000000000000000000000000010', NULL, 'calibration', 'calibration', 'none', 'AAVEUSDC', 1, 0, '{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}', NULL, 61, 41.5, 'finished', 1, NULL, 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', false, 'run-1', 116, '62ccb6062f356bedd816ec8e99c5f75e');
INSERT INTO finetune_results VALUES ('00000000000000000000000000000012', NULL, 'calibration', 'calibration', 'isotonic', 'AAVEUSDC', 0, 10, '{"sharpe":0.5}', NULL, 7, 41.5, 'finished', 1, NULL, 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', false, 'run-1', 201, '3f3e6e5958e6f07117bd63d3b18d0e9a');
INSERT INTO finetune_results VALUES ('00000000000000000000000000000013', NULL, 'calibration', 'calibration', 'isotonic', 'AAVEUSDC', 0, 10, '{"deep":{"buys":5},"text":"\u00e4 \u6f22 \u0000 \ud800 \\u0041"}', NULL, NULL, 41.5, 'finished', 1, NULL, 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', false, 'run-1', 202, '6f65dffa9ecbd5abf716f158521f2d7a');
INSERT INTO finetune_results VALUES ('00000000000000000000000000000014', NULL, 'calibration', 'calibration', 'isotonic', 'AAVEUSDC', 0, 10, '{"buys":0.5}', NULL, NULL, 41.5, 'finished', 1, NULL, 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', false, 'run-1', 203, 'f0c92e978a2be514230d15b91b321dc5');
INSERT INTO finetune_results VALUES ('00000000000000000000000000000015', 'clean the data', NULL, NULL, NULL, NULL, NULL, NULL, '{}', '{"ok":true,"years":[2030,2050]}', NULL, 3.5, 'finished', 1, NULL, NULL, NULL, NULL, NULL, false, NULL, 204, '872e074cf5bd70011ca42df5d65f1e92');
INSERT INTO finetune_results VALUES ('00000000000000000000000000000016', 'train', NULL, NULL, NULL, NULL, NULL, NULL, '{}', '"null"', NULL, NULL, 'finished', 1, NULL, NULL, NULL, NULL, NULL, false, NULL, 205, '390fc44d81157dd1be6d67ea3c0a94a9');
INSERT INTO finetune_results VALUES ('00000000000000000000000000000017', NULL, 'depths', 'depth', '3', 'Y Z/ü', 4, 0, '{"accuracy":0.5}', NULL, NULL, NULL, 'finished', 1, NULL, NULL, NULL, NULL, NULL, false, NULL, 206, '363f7cd0028d85937397d240ef46a36b');
INSERT INTO finetune_results VALUES ('00000000000000000000000000000018', NULL, 'by hand', NULL, NULL, 'AAVEUSDC', 1, NULL, '{}', NULL, NULL, NULL, 'finished', 1, NULL, NULL, NULL, NULL, NULL, false, NULL, 207, '09f3a9d2e9af270ca49ffe0b41bfc01d');
INSERT INTO finetune_results VALUES ('00000000000000000000000000000019', NULL, 'by hand', 'fold', '2', 'AAVEUSDC', 1, 1e+16, '{}', NULL, NULL, NULL, 'finished', 1, NULL, NULL, NULL, NULL, NULL, false, NULL, 208, '724832d69ce0ef521e0209a90954baea');
INSERT INTO finetune_results VALUES ('00000000000000000000000000000002', NULL, 'calibration', 'calibration', 'true', 'AAVEUSDC', 2, 0, '{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}', NULL, 61, 41.5, 'failed', 1, 'wrong prices', 'search:c0de row:c0de', 'c0f1', 'da7a', 'w1', true, 'run-1', 1794972085.1958008, '2e62be62558f7d30213e49a7a3c4ba3f');
INSERT INTO finetune_results VALUES ('00000000000000000000000000000011', NULL, 'calibration', 'calibration', 'isotonic', 'AAVEUSDC', 0, 10, '{}', NULL, NULL, NULL, 'failed', 3, 'wrong prices', NULL, NULL, NULL, 'w2', true, NULL, 1794972085.1958008, 'c7fef1cc7751df921ed86b4007d3fda7');
INSERT INTO finetune_runs VALUES ('run-1 calibration', 'calibration', 1, 2.5, 'failed', 15, 'here', '1 row failed', '77b59363f0d9742506ae71232d8c20a1');
INSERT INTO finetune_runs VALUES ('run-2 depths', 'depths', 3, NULL, 'running', 12, NULL, NULL, '24ee3260eb61e74b99f174eabe706b4d');
INSERT INTO ftf_config VALUES (1, 1, '{"n": 2.0, "cleanlab": "off"}', 'cleanlab', 'off', 'locked', 1794972085.3027453);
INSERT INTO ftf_config_history VALUES (1, '{"n": 2.0, "cleanlab": "off"}', 'cleanlab', 'off', 'locked', 1794972085.3027453);
INSERT INTO scalable_attempts VALUES ('00000000000000000000000000000001', 1, 'run-1', 1.5, NULL, NULL, 'ed8ec3b6f4b8cee2505bec0ff17c819c');
INSERT INTO scalable_dead_letters VALUES ('94733cd3a16e5ec2', 1794972085.7031713, 'store postgresql://scalable@127.0.0.1:57667/fixture refuses it: a constraint that was added to its tables does not allow it (23514)', 3, 'row', '{"sum":"c0598242","at":1794972085.3727212,"row":{"asset":"AAVEUSDC","attempt":1,"buys":61,"code_fingerprint":"search:c0de row:c0de","config_fingerprint":"c0f1","cost_bps":10.0,"data_fingerprint":"da7a","elapsed_s":41.5,"error":null,"factor":"calibration","fold":13,"metrics":{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25},"name":null,"run_id":"run-1","run_key":"0000000000000000000000000000005a","run_status":"finished","sweep":"calibration","value":null,"variant":"isotonic","worker":"w1"}}');
INSERT INTO scalable_incidents VALUES ('run-1/1', 'calibration', 'run-1', 'stuck', NULL, 1.75, '{"why":"\u00fc"}', 1794972085.2824385, 'd48d0d3d1715be1ad7a490eb2857ed12');
INSERT INTO scalable_schema VALUES (4);
ALTER TABLE ONLY finetune_results
    ADD CONSTRAINT finetune_results_pkey PRIMARY KEY (run_key);
ALTER TABLE ONLY finetune_runs
    ADD CONSTRAINT finetune_runs_pkey PRIMARY KEY (id);
ALTER TABLE ONLY ftf_config_history
    ADD CONSTRAINT ftf_config_history_pkey PRIMARY KEY (version);
ALTER TABLE ONLY ftf_config
    ADD CONSTRAINT ftf_config_pkey PRIMARY KEY (id);
ALTER TABLE ONLY scalable_attempts
    ADD CONSTRAINT scalable_attempts_pkey PRIMARY KEY (run_key, attempt);
ALTER TABLE ONLY scalable_counters
    ADD CONSTRAINT scalable_counters_pkey PRIMARY KEY (name);
ALTER TABLE ONLY scalable_dead_letters
    ADD CONSTRAINT scalable_dead_letters_pkey PRIMARY KEY (id);
ALTER TABLE ONLY scalable_incidents
    ADD CONSTRAINT scalable_incidents_pkey PRIMARY KEY (id);
ALTER TABLE ONLY scalable_leases
    ADD CONSTRAINT scalable_leases_pkey PRIMARY KEY (id);
ALTER TABLE ONLY scalable_leases
    ADD CONSTRAINT scalable_leases_token_key UNIQUE (token);
ALTER TABLE ONLY scalable_schema
    ADD CONSTRAINT scalable_schema_pkey PRIMARY KEY (version);
CREATE INDEX finetune_results_sweep ON finetune_results USING btree (sweep);
