// SPDX-License-Identifier: Apache-2.0

// Package kubernetes pins the versions of the programs of Kubernetes that tests use, and of etcd
// and Ginkgo. The programs are tools of go.mod. The package also pins the end-to-end tests of
// Kubernetes. They are a test package, not a program, so they cannot be a tool: this package
// imports them.
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
