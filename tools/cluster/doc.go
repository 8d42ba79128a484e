// SPDX-License-Identifier: Apache-2.0

// Command cluster runs a Kubernetes cluster on one host, with Wayleave as its network, and tests
// it.
//
// The control plane and each node are machines of package internal/machine: namespaces with
// processes, mounts and a network of their own.
//
//	control: etcd, kube-apiserver, kube-controller-manager, kube-scheduler
//	  bridge cluster0  172.30.0.1/24, fd00:30::1/64
//	    |        |        |
//	  node1    node2    node3: containerd, kubelet, kube-proxy
//	  .11      .12      .13    pods: a /24 of 10.244.0.0/16
//
// No link leads out of these namespaces. So the addresses mean nothing to the host, and several
// clusters can run at once, each from its own copy of the repository. Wayleave runs as the
// DaemonSet of examples/agent/deploy. kube-proxy and the DNS server are those of Kubernetes.
//
// # Usage
//
//	make cluster          # builds everything, and starts three nodes
//	bin/cluster shell kubectl get pods -A
//	bin/cluster test      # runs the suites; 'cluster test --help' lists them
//	bin/cluster faults    # probes policy while nodes, agents or the control plane fail
//	bin/cluster compare   # measures Wayleave beside other implementations of network policy
//	make cluster-down
//
// 'cluster help' lists the other commands. A cluster needs root, and Linux with overlayfs. The
// build needs Debian, for packages such as containerd and runc.
//
// # Concurrency
//
// Only one command that starts or ends machines may run at a time. 'cluster shell', 'cluster node'
// and 'cluster test' may run at the same time.
//
// # Errors
//
// If a step fails, the command ends all processes that it started. The logs of all programs stay in
// bin/cluster-logs, the results of suites in bin/cluster-results.
package main
