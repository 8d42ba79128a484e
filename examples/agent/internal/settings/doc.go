// SPDX-License-Identifier: Apache-2.0

// Package settings reads and merges the agent's configuration.
//
// Later sources take precedence:
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
// and in the datastore, WAYLEAVE_APPLY_INTERVAL in the environment. Settings in a datastore are
// AgentConfig objects. In a directory of manifests, Extract cuts them out. "default" is for all
// nodes and "node.NAME" for one:
//
//	apiVersion: wayleave.dev/v1
//	kind: AgentConfig
//	metadata: {name: default}
//	spec: {log-level: DEBUG, apply-interval: 20ms}
//
// In a Kubernetes cluster, settings are ConfigMaps: NAME for all nodes, NAME-node-NODE for one.
//
// Identity, trust and kernel ownership cannot be set in the datastore. Nor can they change while the
// agent runs: Pin keeps their values when the sources are read again.
//
// # Concurrency
//
// The functions may be called concurrently. Values have no locks.
//
// # Errors
//
// A *Problem names the source and the key. Resolve returns the problems of all sources, joined.
// ResolveKeys returns the problems that leave the value of one of its keys unknown.
package settings
