// SPDX-License-Identifier: Apache-2.0

// Package settings is the configuration of the agent: what there is to set, the sources that it
// comes from, and which of them had the last word.
//
//	defaults < environment < file < datastore, all nodes < datastore, this node < command line
//
// # Usage
//
//	environment, file := settings.Environment(os.Environ()), settings.File("/etc/wayleave/agent.yaml")
//	effective, err := settings.Resolve(environment, file, ...)
//	fmt.Print(effective)
//
// A key is spelt alike everywhere: --apply-interval on the command line, apply-interval in the file
// and in the datastore, WAYLEAVE_APPLY_INTERVAL in the environment. The datastore's settings are
// objects of kind AgentConfig beside the manifests, cut out by Extract; "default" is for all nodes
// and "node.NAME" for one:
//
//	apiVersion: wayleave.dev/v1
//	kind: AgentConfig
//	metadata: {name: default}
//	spec: {log-level: DEBUG, apply-interval: 20ms}
//
// What says who the agent is, what it trusts and what it owns in the kernel cannot be set there.
// Nor can it change while the agent runs: Pin keeps it when the sources are read again.
//
// # Concurrency
//
// All types are plain values.
//
// # Errors
//
// A *Problem names the source and the key. Resolve returns the problems of all sources, joined.
// ResolveKeys returns the problems that leave the value of one of its keys unknown.
package settings
