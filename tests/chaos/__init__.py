POISON = "poison: this text kills the worker that reads it"
