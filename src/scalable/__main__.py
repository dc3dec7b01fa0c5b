from scalable.cli.main import main

raise SystemExit(main())
