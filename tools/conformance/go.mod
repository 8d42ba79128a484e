module github.com/wayleave/wayleave/tools/conformance

go 1.26.0

// The folder of the conformance test, which is no command: scripts/build-suites compiles its test.
tool sigs.k8s.io/network-policy-api/conformance

require sigs.k8s.io/network-policy-api v0.2.0 // indirect
