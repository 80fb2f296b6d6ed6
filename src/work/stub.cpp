namespace tenzro::work { int stub(); int stub() { return 0; } }
