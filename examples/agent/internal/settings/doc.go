// SPDX-License-Identifier: Apache-2.0

// Package settings reads the agent's configuration from several sources and merges it.
//
// A later source in this list takes precedence over the earlier ones:
//
//	defaults < environment < file < datastore, all nodes < datastore, this node < command line
//
// # Usage
//
//	environment, file := settings.Environment(os.Environ()), settings.File("/etc/wayleave/agent.yaml")
//	effective, err := settings.Resolve(environment, file, ...)
//	fmt.Print(effective)
//
// A setting has the same key in all sources: --apply-interval on the command line, apply-interval
// in the file and in the datastore, WAYLEAVE_APPLY_INTERVAL in the environment.
//
// The datastore is a directory of manifests or an etcd. Settings there are AgentConfig objects. The
// object "default" is for all nodes, and "node.NAME" for one node:
//
//	apiVersion: wayleave.dev/v1
//	kind: AgentConfig
//	metadata: {name: default}
//	spec: {log-level: DEBUG, apply-interval: 20ms}
//
// In a Kubernetes cluster, settings are ConfigMaps: NAME for all nodes, and NAME-node-NODE for one
// node.
//
// Some settings cannot be set in the datastore, because its users must not decide about them: the
// node's name, whom the agent trusts, and which objects in the kernel belong to the agent. These
// settings cannot change while the agent runs. When the sources are read again, Pin keeps the
// values of these settings.
//
// # Concurrency
//
// The functions may be called from any goroutine. Values of the package's types have no locks: do
// not change a value while another goroutine uses it.
//
// # Errors
//
// A *Problem names the source and the key. Resolve returns the problems of all sources, joined.
// ResolveKeys returns only problems because of which it does not know the value of a key.
package settings
