// SPDX-License-Identifier: Apache-2.0

// Package kubernetes pins the versions of the programs of Kubernetes that tests use. The programs
// are tools of go.mod. The end-to-end tests are a test package, not a program, so they cannot be a
// tool. This package imports them instead.
//
// # Usage
//
// scripts/kubernetes-programs builds the programs.
//
// # Concurrency
//
// The package has no code, only an import.
//
// # Errors
//
// The package returns no errors.
package kubernetes
