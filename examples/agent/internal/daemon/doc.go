// SPDX-License-Identifier: Apache-2.0

// Package daemon runs the agent. It runs a pipeline, the part of the agent that reads the sources
// of desired state and programs the kernel. When settings change, a new pipeline replaces it. The
// package also serves an API on a Unix socket, and health and metrics over HTTP.
//
//	command line, environment, file ─┐                    ┌──▶ unix socket: package api
//	AgentConfig in the manifests ────┴▶ settings ─▶ Daemon ──▶ HTTP: /livez /readyz /metrics
//	                                                  │
//	                                                  └──▶ pipeline, a new one when settings change
//
// A new pipeline continues with the kernel state of the previous one and changes only the
// differences. Therefore policy is enforced all the time.
//
// # Usage
//
//	err := daemon.Run(ctx, daemon.Config{Below: layers, Log: os.Stderr})
//
// Config.Sources can add further sources of desired state.
//
// # Concurrency
//
// Run may be called several times at once. Each call then needs its own socket and directories, and
// either its own network namespace or its own table.
//
// # Errors
//
// Run returns nil once its context is done. It returns an error in these cases:
//
//   - the settings on the command line, in the environment or in the file are invalid; the error
//     contains all problems;
//   - Run cannot listen on the socket or the HTTP address;
//   - Run cannot continue, for example because a source has ended.
//
// Invalid settings in the datastore do not end Run. The log and the status have the problem, and
// the previous settings stay in effect.
package daemon
