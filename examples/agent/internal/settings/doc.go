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
// A setting has the same key in all sources. For example, the key is --apply-interval on the
// command line, apply-interval in the file and in the datastore, and WAYLEAVE_APPLY_INTERVAL in the
// environment.
//
// The datastore is a directory of manifests, or an etcd. It has the settings as AgentConfig
// objects. The object "default" has settings for all nodes, and the object "node.NODE" has settings
// for the node NODE:
//
//	apiVersion: wayleave.dev/v1
//	kind: AgentConfig
//	metadata: {name: default}
//	spec: {log-level: DEBUG, apply-interval: 20ms}
//
// In a Kubernetes cluster, two ConfigMaps have the settings. The setting kubernetes-config names
// the ConfigMap with settings for all nodes. If this ConfigMap is "agent", the ConfigMap
// "agent-node-NODE" has settings for the node NODE.
//
// Some settings cannot be set in the datastore, because its users must not decide, for
// example, about these things:
//
//   - the node's name
//   - whom the agent trusts
//   - which objects in the kernel belong to the agent
//   - which files and sockets the agent uses
//   - when the agent is considered stuck
//
// These settings also cannot change while the agent runs. When the sources are read again, Pin
// keeps their values.
//
// # Concurrency
//
// The functions may be called from any goroutine. Values of the package's types have no locks: do
// not change a value while another goroutine uses it.
//
// # Errors
//
// A *Problem names the source and the key. Resolve returns the problems of all sources, joined.
// ResolveKeys reads the values of some keys only. It returns a problem only if the value of one of
// these keys is unknown because of the problem.
package settings
