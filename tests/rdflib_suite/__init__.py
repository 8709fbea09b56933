"""rdflib's own tests, run on the plugin: ``python -m tests.rdflib_suite CHECKOUT``. Lowtide does not contain them."""
