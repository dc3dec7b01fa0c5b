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
	run_id TEXT, 
	written_at DOUBLE NOT NULL, 
	digest TEXT NOT NULL, 
	PRIMARY KEY (run_key)
);
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000001',NULL,'calibration','calibration','isotonic','AAVEUSDC',0,10.0,'{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}',NULL,61,41.5,'finished',1,NULL,'search:c0de row:c0de','c0f1','da7a','w1',0,'run-1',100.5,'9222ea80c28e8f6bc861efd27c55e760');
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000002',NULL,'calibration','calibration','true','AAVEUSDC',2,0.0,'{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}',NULL,61,41.5,'failed',1,'wrong prices','search:c0de row:c0de','c0f1','da7a','w1',1,'run-1',1.79497207889566802981e+09,'2e62be62558f7d30213e49a7a3c4ba3f');
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000003',NULL,'calibration','calibration','1','AAVEUSDC',0,2.5,'{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}',NULL,61,41.5,'finished',1,NULL,'search:c0de row:c0de','c0f1','da7a','w1',0,'run-1',103.0,'8eb4842f5261eea1e996db316acdf6c5');
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000004',NULL,'calibration','calibration','1.0','AAVEUSDC',1,0.0,'{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}',NULL,61,41.5,'finished',1,NULL,'search:c0de row:c0de','c0f1','da7a','w1',0,'run-1',104.0,'6af710b9eb77a257398056187254aced');
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000005',NULL,'calibration','calibration','"1"','AAVEUSDC',2,2.5,'{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}',NULL,61,41.5,'finished',1,NULL,'search:c0de row:c0de','c0f1','da7a','w1',0,'run-1',105.0,'3c258fc4440aa924d84133b17d849230');
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000006',NULL,'calibration','calibration','"true"','AAVEUSDC',0,0.0,'{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}',NULL,61,41.5,'finished',1,NULL,'search:c0de row:c0de','c0f1','da7a','w1',0,'run-1',106.0,'a8fae2cc3e3ca1bca94d22b92492aff6');
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000007',NULL,'calibration','calibration','"null"','AAVEUSDC',1,2.5,'{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}',NULL,61,41.5,'finished',1,NULL,'search:c0de row:c0de','c0f1','da7a','w1',0,'run-1',107.0,'cb69c7e5c146bfac3aa6e77e4a2a034f');
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000008',NULL,'calibration','calibration','"NaN"','AAVEUSDC',2,0.0,'{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}',NULL,61,41.5,'finished',1,NULL,'search:c0de row:c0de','c0f1','da7a','w1',0,'run-1',108.0,'2dc532b4e249927d212c357b445b34be');
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000009',NULL,'calibration','calibration','"\"1\""','AAVEUSDC',0,2.5,'{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}',NULL,61,41.5,'finished',1,NULL,'search:c0de row:c0de','c0f1','da7a','w1',0,'run-1',109.0,'f9bdae5ce478e7cc636049dc9598fb8f');
INSERT INTO "finetune_results" VALUES('0000000000000000000000000000000a',NULL,'calibration','calibration','90d','AAVEUSDC',1,0.0,'{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}',NULL,61,41.5,'finished',1,NULL,'search:c0de row:c0de','c0f1','da7a','w1',0,'run-1',110.0,'e36e7e7d740b6181048dcaf036455740');
INSERT INTO "finetune_results" VALUES('0000000000000000000000000000000b',NULL,'calibration','calibration','a b/ü漢','AAVEUSDC',2,2.5,'{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}',NULL,61,41.5,'finished',1,NULL,'search:c0de row:c0de','c0f1','da7a','w1',0,'run-1',111.0,'1d9286b0d3944f4488a36267d7bc2994');
INSERT INTO "finetune_results" VALUES('0000000000000000000000000000000c',NULL,'calibration','calibration','[','AAVEUSDC',0,0.0,'{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}',NULL,61,41.5,'finished',1,NULL,'search:c0de row:c0de','c0f1','da7a','w1',0,'run-1',112.0,'2f0fb2852cebd3930b56cedea4c128b0');
INSERT INTO "finetune_results" VALUES('0000000000000000000000000000000d',NULL,'calibration','calibration','-0.5','AAVEUSDC',1,2.5,'{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}',NULL,61,41.5,'finished',1,NULL,'search:c0de row:c0de','c0f1','da7a','w1',0,'run-1',113.0,'1515e8ec0f2f039cedae616e68d3515f');
INSERT INTO "finetune_results" VALUES('0000000000000000000000000000000e',NULL,'calibration','calibration','1e+300','AAVEUSDC',2,0.0,'{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}',NULL,61,41.5,'finished',1,NULL,'search:c0de row:c0de','c0f1','da7a','w1',0,'run-1',114.0,'5cfc0bd5b27fb7c03f3979fccb971415');
INSERT INTO "finetune_results" VALUES('0000000000000000000000000000000f',NULL,'calibration','calibration','" 1 "','AAVEUSDC',0,2.5,'{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}',NULL,61,41.5,'finished',1,NULL,'search:c0de row:c0de','c0f1','da7a','w1',0,'run-1',115.0,'cf92bba26a64022a1d16f36083353f17');
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000010',NULL,'calibration','calibration','none','AAVEUSDC',1,0.0,'{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25}',NULL,61,41.5,'finished',1,NULL,'search:c0de row:c0de','c0f1','da7a','w1',0,'run-1',116.0,'62ccb6062f356bedd816ec8e99c5f75e');
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000011',NULL,'calibration','calibration','isotonic','AAVEUSDC',0,10.0,'{}',NULL,NULL,NULL,'failed',3,'wrong prices',NULL,NULL,NULL,'w2',1,NULL,1.79497207889566802981e+09,'c7fef1cc7751df921ed86b4007d3fda7');
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000012',NULL,'calibration','calibration','isotonic','AAVEUSDC',0,10.0,'{"sharpe":0.5}',NULL,7,41.5,'finished',1,NULL,'search:c0de row:c0de','c0f1','da7a','w1',0,'run-1',201.0,'3f3e6e5958e6f07117bd63d3b18d0e9a');
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000013',NULL,'calibration','calibration','isotonic','AAVEUSDC',0,10.0,'{"deep":{"buys":5},"text":"\u00e4 \u6f22 \u0000 \ud800 \\u0041"}',NULL,NULL,41.5,'finished',1,NULL,'search:c0de row:c0de','c0f1','da7a','w1',0,'run-1',202.0,'6f65dffa9ecbd5abf716f158521f2d7a');
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000014',NULL,'calibration','calibration','isotonic','AAVEUSDC',0,10.0,'{"buys":0.5}',NULL,NULL,41.5,'finished',1,NULL,'search:c0de row:c0de','c0f1','da7a','w1',0,'run-1',203.0,'f0c92e978a2be514230d15b91b321dc5');
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000015','clean the data',NULL,NULL,NULL,NULL,NULL,NULL,'{}','{"ok":true,"years":[2030,2050]}',NULL,3.5,'finished',1,NULL,NULL,NULL,NULL,NULL,0,NULL,204.0,'872e074cf5bd70011ca42df5d65f1e92');
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000016','train',NULL,NULL,NULL,NULL,NULL,NULL,'{}','"null"',NULL,NULL,'finished',1,NULL,NULL,NULL,NULL,NULL,0,NULL,205.0,'390fc44d81157dd1be6d67ea3c0a94a9');
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000017',NULL,'depths','depth','3','Y Z/ü',4,0.0,'{"accuracy":0.5}',NULL,NULL,NULL,'finished',1,NULL,NULL,NULL,NULL,NULL,0,NULL,206.0,'363f7cd0028d85937397d240ef46a36b');
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000018',NULL,'by hand',NULL,NULL,'AAVEUSDC',1,NULL,'{}',NULL,NULL,NULL,'finished',1,NULL,NULL,NULL,NULL,NULL,0,NULL,207.0,'09f3a9d2e9af270ca49ffe0b41bfc01d');
INSERT INTO "finetune_results" VALUES('00000000000000000000000000000019',NULL,'by hand','fold','2','AAVEUSDC',1,1.0e+16,'{}',NULL,NULL,NULL,'finished',1,NULL,NULL,NULL,NULL,NULL,0,NULL,208.0,'724832d69ce0ef521e0209a90954baea');
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
INSERT INTO "finetune_runs" VALUES('run-1 calibration','calibration',1.0,2.5,'failed',15,'here','1 row failed','77b59363f0d9742506ae71232d8c20a1');
INSERT INTO "finetune_runs" VALUES('run-2 depths','depths',3.0,NULL,'running',12,NULL,NULL,'24ee3260eb61e74b99f174eabe706b4d');
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
INSERT INTO "ftf_config" VALUES(1,1,'{"cleanlab":"off","n":2.0}','cleanlab','off','locked',1.7949720789688615799e+09);
CREATE TABLE ftf_config_history (
	version BIGINT NOT NULL, 
	base_env TEXT NOT NULL, 
	factor TEXT, 
	variant TEXT, 
	reason TEXT NOT NULL, 
	written_at DOUBLE NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "ftf_config_history" VALUES(1,'{"cleanlab":"off","n":2.0}','cleanlab','off','locked',1.7949720789688615799e+09);
CREATE TABLE scalable_attempts (
	run_key TEXT NOT NULL, 
	attempt BIGINT NOT NULL, 
	run_id TEXT NOT NULL, 
	started DOUBLE NOT NULL, 
	ended DOUBLE, 
	cause TEXT, 
	digest TEXT NOT NULL, 
	PRIMARY KEY (run_key, attempt)
);
INSERT INTO "scalable_attempts" VALUES('00000000000000000000000000000001',1,'run-1',1.5,NULL,NULL,'ed8ec3b6f4b8cee2505bec0ff17c819c');
CREATE TABLE scalable_counters (
	name TEXT NOT NULL, 
	last BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE scalable_dead_letters (
	id TEXT NOT NULL, 
	written_at DOUBLE NOT NULL, 
	reason TEXT NOT NULL, 
	tries BIGINT NOT NULL, 
	kind TEXT NOT NULL, 
	content TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "scalable_dead_letters" VALUES('94733cd3a16e5ec2',1.79497207929658222197e+09,'store sqlite:///results.db refuses it: a constraint or trigger that was added to its tables does not allow it',3,'row','{"sum":"7eb3bfca","at":1794972078.988539,"row":{"asset":"AAVEUSDC","attempt":1,"buys":61,"code_fingerprint":"search:c0de row:c0de","config_fingerprint":"c0f1","cost_bps":10.0,"data_fingerprint":"da7a","elapsed_s":41.5,"error":null,"factor":"calibration","fold":13,"metrics":{"buys":61.0,"ratio":{"$float":"nan"},"sharpe":1.25},"name":null,"run_id":"run-1","run_key":"0000000000000000000000000000005a","run_status":"finished","sweep":"calibration","value":null,"variant":"isotonic","worker":"w1"}}');
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
INSERT INTO "scalable_incidents" VALUES('run-1/1','calibration','run-1','stuck',NULL,1.75,'{"why":"\u00fc"}',1.7949720789613969326e+09,'d48d0d3d1715be1ad7a490eb2857ed12');
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
INSERT INTO "scalable_schema" VALUES(4);
CREATE INDEX finetune_results_sweep ON finetune_results (sweep);
COMMIT;
