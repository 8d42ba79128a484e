// SPDX-License-Identifier: Apache-2.0

// Package apiserver runs a Kubernetes API server and its etcd for tests.
//
//	test ── rest.Config ──▶ kube-apiserver ──▶ etcd     (child processes, on free ports of loopback)
//
// No controller runs. A Service has no EndpointSlices, a Namespace no ServiceAccount, and a deleted
// Namespace stays, unless the test changes them. The server itself creates the namespaces default
// and kube-*, and the Service kubernetes with an EndpointSlice. Some of them come after Start has
// returned.
//
// # Usage
//
//	server := apiserver.Start(t, apiserver.Config{RBAC: true})
//	server.ApplyCRDs(apiserver.CalicoCRDs()...)
//	client := kubernetes.NewForConfigOrDie(server.RESTFor("node-1"))
//	server.Restart() // the same objects, at the same address
//
// StartEtcd starts an etcd alone. Etcd.Proxy starts etcd's gRPC proxy in front of it. A command can
// use the package like a test, with its own implementation of T.
//
// `make test-kubernetes` builds the programs and runs the tests with them. Elsewhere the tests
// skip. The environment variables are:
//
//   - WAYLEAVE_KUBERNETES_BIN: the folder of the programs kube-apiserver and etcd.
//   - WAYLEAVE_ETCD_SERVER: the path of an etcd to use in place of the one in that folder.
//
// # Concurrency
//
// A Server is for the goroutine of its test. Its clients may be used by several goroutines. Several
// Servers may run at once.
//
// # Errors
//
// Errors fail the test, among them a program that WAYLEAVE_KUBERNETES_BIN lacks. A failed test logs
// the last lines of the programs' logs.
package apiserver
