BEGIN TRANSACTION;
CREATE TABLE finetune_results (
	run_key TEXT NOT NULL, 
	name TEXT, 
	sweep TEXT, 
	factor TEXT, 
	variant TEXT, 
	asset TEXT, 
	fold BIGINT, 
	cost_bps DOUBLE, 
	metrics TEXT NOT NULL, 
	value TEXT, 
	buys BIGINT, 
	elapsed_s DOUBLE, 
	run_status TEXT NOT NULL, 
	attempt BIGINT NOT NULL, 
	error TEXT, 
	code_fingerprint TEXT, 
	config_fingerprint TEXT, 
	data_fingerprint TEXT, 
	worker TEXT, 
	marked BOOLEAN DEFAULT 0 NOT NULL, 
	written_at DOUBLE NOT NULL, 
	digest TEXT NOT NULL, 
	PRIMARY KEY (run_key)
);
INSERT INTO "finetune_results" VALUES('404b8ac1e109ef0ccf724a42962ff0d1',NULL,'depths','depth','1','a',0,0.0,'{"accuracy":0.51}',NULL,NULL,0.000266,'finished',1,NULL,'score:2940a67d','bef6125029787fc306caa40fa0f6f329','7fcc2d7bda5ab661d72486f972370563','standard-0',0,1.79494685727305674548e+09,'9566c47627a07b4bd7cf40d645b132b2');
INSERT INTO "finetune_results" VALUES('94507341eb090e2c5714913cd7cfa6f7',NULL,'depths','depth','2','a',0,0.0,'{"accuracy":0.52}',NULL,NULL,0.000212,'finished',1,NULL,'score:2940a67d','67ab2d5f8b545f69dc479d79f1396fa3','7fcc2d7bda5ab661d72486f972370563','standard-0',0,1.79494685729185557369e+09,'c0245c5b6c343887a1d8c7dff65c9725');
INSERT INTO "finetune_results" VALUES('32509ce448b2afdc190ad8657b6ed644',NULL,'depths','depth','3','a',0,0.0,'{"accuracy":0.53}',NULL,NULL,0.000209,'finished',1,NULL,'score:2940a67d','cc0a00783189ebf6cd339c771ef69643','7fcc2d7bda5ab661d72486f972370563','standard-0',0,1.79494685731782722473e+09,'c1fbb60d8ae38548d8de6dc5c185221e');
INSERT INTO "finetune_results" VALUES('7fd4ecf23962aa7f77a73f7121da4f98',NULL,'depths','depth','2','a',1,0.0,'{"accuracy":0.521}',NULL,NULL,0.000188,'finished',1,NULL,'score:2940a67d','e495c222d46bc18974d8c2987013f3f8','7fcc2d7bda5ab661d72486f972370563','standard-0',0,1.79494685732413077356e+09,'8e4628671578dd15e37d3170021a7a89');
INSERT INTO "finetune_results" VALUES('db7c04ae77c781fd35d6ef41371a3206',NULL,'depths','depth','1','a',1,0.0,'{"accuracy":0.511}',NULL,NULL,0.012048,'finished',1,NULL,'score:2940a67d','580de1fa1aed2a3a6225c2c991ff195a','7fcc2d7bda5ab661d72486f972370563','standard-0',0,1.79494685731851196289e+09,'831cf318d4bb4af4f5753a1f523aadeb');
INSERT INTO "finetune_results" VALUES('2b81b8c32badd48c120c8dc10a548b1c',NULL,'depths','depth','3','a',1,0.0,'{"accuracy":0.531}',NULL,NULL,0.00026,'finished',1,NULL,'score:2940a67d','4501cd75e7469e00e3ece94e0f92d42b','7fcc2d7bda5ab661d72486f972370563','standard-0',0,1.79494685735077643394e+09,'ed4f52349897fed7e87653478179db0e');
INSERT INTO "finetune_results" VALUES('b026a19e766d960fd7b0a4bb0fe64715',NULL,'depths','depth','2','b',0,0.0,'{"accuracy":0.52}',NULL,NULL,0.000216,'finished',1,NULL,'score:2940a67d','ae03913ec4fbe2c31135b63410b57989','7fcc2d7bda5ab661d72486f972370563','standard-0',0,1.79494685735214185712e+09,'7f2da5de5d21e333039db4ab65ae49d3');
INSERT INTO "finetune_results" VALUES('c387b3979c636550e53fd4f4b4e3bf41',NULL,'depths','depth','1','b',0,0.0,'{"accuracy":0.51}',NULL,NULL,0.00023,'finished',1,NULL,'score:2940a67d','d82a15053672cc53936c753fc7a57fc4','7fcc2d7bda5ab661d72486f972370563','standard-0',0,1.79494685735091733932e+09,'0ea40dd1a587e5b21c4df3cc3bbbe25b');
INSERT INTO "finetune_results" VALUES('eb43e87ddf4f8976617bcdfc442a57f7',NULL,'depths','depth','1','b',1,0.0,'{"accuracy":0.511}',NULL,NULL,0.000125,'finished',1,NULL,'score:2940a67d','21e7ad5381c1ffca3b6cfb78f234cd60','7fcc2d7bda5ab661d72486f972370563','standard-0',0,1.79494685735689783094e+09,'ddc7803a1263cecf34e7817dd5a85a00');
INSERT INTO "finetune_results" VALUES('f26361c466e68d1d5e9bb79b17d9c64d',NULL,'depths','depth','3','b',0,0.0,'{"accuracy":0.53}',NULL,NULL,0.000176,'finished',1,NULL,'score:2940a67d','79d7532d4dddb56765dee278bcde6d95','7fcc2d7bda5ab661d72486f972370563','standard-0',0,1.79494685735680842395e+09,'b1d2cdc1c20104a98c97b285930f08f8');
INSERT INTO "finetune_results" VALUES('a242e2428670218e1b67548634c51713',NULL,'depths','depth','2','b',1,0.0,'{"accuracy":0.521}',NULL,NULL,0.000152,'finished',1,NULL,'score:2940a67d','c6818d9305868b92708d888bc71b6b9d','7fcc2d7bda5ab661d72486f972370563','standard-0',0,1.79494685736104297633e+09,'a4b488422b6f76b0f863ffddbbbe5f32');
INSERT INTO "finetune_results" VALUES('3ac5218236ba3dc7111ee86104a6c1db',NULL,'depths','depth','3','b',1,0.0,'{}',NULL,NULL,NULL,'failed',1,'ValueError: no luck','score:2940a67d','24df3a04077fa3c3d58c226272b35c09','7fcc2d7bda5ab661d72486f972370563','standard-0',0,1.79494685737537670137e+09,'a6446064024d7edf531ed7dc6852386c');
CREATE TABLE finetune_runs (
	id TEXT NOT NULL, 
	sweep TEXT NOT NULL, 
	started DOUBLE NOT NULL, 
	ended DOUBLE, 
	status TEXT NOT NULL, 
	expected BIGINT NOT NULL, 
	target TEXT, 
	reason TEXT, 
	digest TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "finetune_runs" VALUES('run-20261117T202053Z-kept-da275875 depths','depths',1.79494685656339931492e+09,1.7949468573895158768e+09,'failed',12,'here','1 row failed (b depth 3 fold 1 at 0 bps: ValueError: no luck)','2480de4001f849cd6d3978d86b6f2c43');
CREATE TABLE ftf_config (
	id BIGINT NOT NULL CHECK (id = 1), 
	version BIGINT NOT NULL, 
	base_env TEXT NOT NULL, 
	factor TEXT, 
	variant TEXT, 
	reason TEXT NOT NULL, 
	written_at DOUBLE NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE ftf_config_history (
	version BIGINT NOT NULL, 
	base_env TEXT NOT NULL, 
	factor TEXT, 
	variant TEXT, 
	reason TEXT NOT NULL, 
	written_at DOUBLE NOT NULL, 
	PRIMARY KEY (version)
);
CREATE TABLE scalable_counters (
	name TEXT NOT NULL, 
	last BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "scalable_counters" VALUES('leases',2);
CREATE TABLE scalable_dead_letters (
	id TEXT NOT NULL, 
	written_at DOUBLE NOT NULL, 
	reason TEXT NOT NULL, 
	tries BIGINT NOT NULL, 
	kind TEXT NOT NULL, 
	content TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE scalable_incidents (
	id TEXT NOT NULL, 
	sweep TEXT, 
	run TEXT, 
	kind TEXT NOT NULL, 
	worker TEXT, 
	started DOUBLE NOT NULL, 
	summary TEXT NOT NULL, 
	written_at DOUBLE NOT NULL, 
	digest TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE scalable_leases (
	id BIGINT NOT NULL, 
	name TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	holder TEXT NOT NULL, 
	token BIGINT, 
	requested_at DOUBLE NOT NULL, 
	heartbeat DOUBLE NOT NULL, 
	expires DOUBLE NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (token)
);
CREATE TABLE scalable_schema (
	version BIGINT NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "scalable_schema" VALUES(3);
CREATE INDEX finetune_results_sweep ON finetune_results (sweep);
COMMIT;
