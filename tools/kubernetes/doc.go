// SPDX-License-Identifier: Apache-2.0

// Package kubernetes pins the versions of the programs of Kubernetes that tests use. The programs
// are tools of go.mod. The end-to-end tests are no program, so this package imports theirs.
//
// # Usage
//
// scripts/kubernetes-programs builds the programs.
//
// # Concurrency
//
// It has no code.
//
// # Errors
//
// It has none.
package kubernetes
