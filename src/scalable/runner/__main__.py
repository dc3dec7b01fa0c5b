from scalable.runner.child import main

raise SystemExit(main())
