// SPDX-License-Identifier: Apache-2.0

// Package daemon is the agent as a process: it keeps a pipeline running under settings that may
// change, and answers questions about it on a unix socket and over HTTP.
//
//	command line, environment, file ─┐                    ┌──▶ unix socket: package api
//	AgentConfig in the manifests ────┴▶ settings ─▶ Daemon ──▶ HTTP: /livez /readyz /metrics
//	                                                  │
//	                                                  └──▶ pipeline, a new one when settings change
//
// A new pipeline finds in the kernel what the one before left, and goes on from there: packets are
// judged all the while.
//
// # Usage
//
//	err := daemon.Run(ctx, daemon.Config{Below: layers, Log: os.Stderr})
//
// A source of desired state of another kind, as that of a cluster, plugs in by Config.Sources.
//
// # Concurrency
//
// Run may be called several times at once, with different sockets, directories and tables or
// network namespaces.
//
// # Errors
//
// Run returns nil once its context is done. It fails where the settings make no sense (all problems
// at once), where it cannot listen, and where it is pointless to go on, as without the manifests'
// directory. Settings in the datastore that make no sense are logged and shown in the status; the
// ones before go on counting.
package daemon
