// SPDX-License-Identifier: Apache-2.0

// Package daemon is the process of the agent. It runs a pipeline, restarts it when settings change, and serves its API
// on a Unix socket and over HTTP.
//
//	command line, environment, file ─┐                    ┌──▶ unix socket: package api
//	AgentConfig in the manifests ────┴▶ settings ─▶ Daemon ──▶ HTTP: /livez /readyz /metrics
//	                                                  │
//	                                                  └──▶ pipeline, a new one when settings change
//
// A new pipeline adopts the kernel state of the previous one, so policy is enforced without a gap.
//
// # Usage
//
//	err := daemon.Run(ctx, daemon.Config{Below: layers, Log: os.Stderr})
//
// Config.Sources has further sources of desired state, such as that of a cluster.
//
// # Concurrency
//
// Run may be called several times at once, with different sockets, directories and tables or
// network namespaces.
//
// # Errors
//
// Run returns nil once its context is done. It fails if the settings are invalid (with all problems), if it cannot
// listen, and if it cannot continue, for example without the manifests' directory. Invalid settings in the datastore
// are logged and in the status, and the previous ones stay in effect.
package daemon
