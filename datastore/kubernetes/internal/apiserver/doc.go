// SPDX-License-Identifier: Apache-2.0

// Package apiserver runs a Kubernetes API server and its etcd for tests.
//
//	test ── rest.Config ──▶ kube-apiserver ──▶ etcd     (child processes, on free ports of loopback)
//
// No controller runs. So a Service has no EndpointSlices, and a Namespace has no ServiceAccount,
// unless the test creates them. If a test deletes a Namespace, the Namespace stays. The server
// itself creates the namespaces default and kube-*, and the Service kubernetes with an
// EndpointSlice. It may create some of these objects after Start has returned.
//
// # Usage
//
//	server := apiserver.Start(t, apiserver.Config{RBAC: true})
//	server.ApplyCRDs(apiserver.CalicoCRDs()...)
//	client := kubernetes.NewForConfigOrDie(server.RESTFor("node-1"))
//	server.Restart() // the same objects, at the same address
//
// StartEtcd starts an etcd without an API server. Etcd.Proxy starts etcd's gRPC proxy in front of
// it. A command, too, can use the package: it needs its own implementation of T.
//
// `make test-kubernetes` builds kube-apiserver and etcd, and runs the tests with them. If you run
// the tests in another way, they are skipped unless you set WAYLEAVE_KUBERNETES_BIN. The
// environment variables are:
//
//   - WAYLEAVE_KUBERNETES_BIN: the folder of the programs kube-apiserver and etcd.
//   - WAYLEAVE_ETCD_SERVER: the path of an etcd to use instead of the one in that folder.
//
// # Concurrency
//
// Only the goroutine of the test may call the methods of a Server. Several goroutines may use the
// clients of a Server. Several Servers may run at once.
//
// # Errors
//
// An error fails the test, for example if a program is missing in the folder
// WAYLEAVE_KUBERNETES_BIN. A failed test logs the last lines of the programs' logs.
package apiserver
