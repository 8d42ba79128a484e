// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/buildinfo"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// suites returns the suites in the order in which they run.
func suites() []suite {
	return []suite{
		endToEnd("netpol", "Kubernetes end-to-end, NetworkPolicy", `\[sig-network\] (Netpol|NetworkPolicy)`, 2, 50,
			nil),
		endToEnd("network", "Kubernetes end-to-end, sig-network without NetworkPolicy", `\[sig-network\]`, 5, 140,
			excludedTests()),
		policyAPI(),
		cyclonus("cyclonus", "cyclonus, all cases of its generator", 230),
	}
}

// selections returns parts of the suites that take some minutes.
func selections() []suite {
	return []suite{
		endToEnd("short", "Kubernetes end-to-end, twenty selected tests", shortTests, 4, 20, nil),
		cyclonus("cyclonus-short", "cyclonus, conflicting policies, changes, SCTP, port ranges", 57,
			"conflict", "action", "sctp", "end-port", "upstream-e2e"),
	}
}

// shortTests matches one end-to-end test for each feature of policy, and tests of services, DNS and
// both families.
const shortTests = `\[sig-network\] (` +
	`Netpol .*(support a 'default-deny-all' policy|enforce policy based on PodSelector and NamespaceSelector|` +
	`based on Multiple PodSelectors and NamespaceSelectors|` +
	`NamespaceSelector with MatchExpressions using default ns label|` +
	`allow ingress access on one named port|allow ingress access from updated pod|from updated namespace|` +
	`enforce updated policy|stop enforcing policies after they are deleted|multiple, stacked policies|` +
	`ingress and egress policies can be controlled independently|denying of egress traffic on the client side|` +
	`overlapping both IPBlock.CIDR and IPBlock.Except|except clause while egress access|` +
	`using SCTP should support a 'default-deny-ingress' policy|UDP should support a 'default-deny-ingress' policy)` +
	`|Services should (allow pods to hairpin back to themselves|be able to create a functioning NodePort service)` +
	`|DNS should provide DNS for services` +
	`|\[Feature:IPv6DualStack\] should create pod, add ipv6 and ipv4 ip to pod ips)`

// policyAPI returns the conformance suite of ClusterNetworkPolicy.
func policyAPI() suite {
	const test = "TestConformance"
	return suite{
		name: "policy-api", title: "Conformance of the network policy API, all features of v1alpha2", minTests: 24,
		version: func(c *cluster) (string, error) { return c.moduleVersion("suites/conformance.test") },
		command: func(c *cluster, _, focus string) []string {
			run := "^" + test + "$"
			if focus != "" {
				run += "/" + focus
			}
			return []string{
				c.bin("suites/conformance.test"), "-test.v", "-test.timeout=90m", "-test.run=" + run, "-all-features",
			}
		},
		results:  func(folder string) ([]result, error) { return goTestResults(filepath.Join(folder, "log"), test) },
		progress: func(line string) string { return startsWith(line, "--- ") },
	}
}

// cyclonus returns the cases of cyclonus that have one of the tags, or all.
func cyclonus(name, title string, minTests int, tags ...string) suite {
	return suite{
		name: name, title: title, minTests: minTests,
		version: func(c *cluster) (string, error) { return c.moduleVersion("suites/cyclonus") },
		command: func(c *cluster, folder, focus string) []string {
			if focus != "" {
				tags = []string{focus}
			}
			return []string{
				c.bin("suites/cyclonus"), "generate", "--exclude=", "--include=" + strings.Join(tags, ","),
				// The end-to-end tests cover the addresses of services. A pod reaches its own
				// address without leaving its network namespace.
				"--destination-type=pod-ip", "--ignore-loopback",
				"--job-timeout-seconds=1", "--perturbation-wait-seconds=2", "--pod-creation-timeout-seconds=300",
				"--retries=1", "--cleanup-namespaces", "--junit-results-file=" + filepath.Join(folder, "junit.xml"),
			}
		},
		results:  func(folder string) ([]result, error) { return junitResults(filepath.Join(folder, "junit.xml")) },
		progress: func(line string) string { return startsWith(line, "starting test case", "finished policy") },
	}
}

// moduleVersion returns the version of the module of a program, from its build information.
func (c *cluster) moduleVersion(program string) (string, error) {
	info, err := buildinfo.ReadFile(c.bin(program))
	if err != nil {
		return "", err
	}
	return info.Main.Version, nil
}

// startsWith returns a line that has one of the prefixes, and "" for others.
func startsWith(line string, prefixes ...string) string {
	for _, prefix := range prefixes {
		if strings.HasPrefix(line, prefix) {
			return line
		}
	}
	return ""
}

// excludedTests returns the tests of sig-network that this cluster cannot run. Those with an empty
// reason are in another suite.
func excludedTests() []reason {
	return []reason{
		{"Netpol", ""},
		{"NetworkPolicy", ""},
		{"[Feature:LoadBalancer]", "needs load balancers of a cloud"},
		{"[Feature:Networking-IPv4]", "sends packets to the Internet"},
		{"[Feature:Networking-IPv6]", "sends packets to the Internet"},
		{"[Feature:Networking-DNS]", "sends packets to the Internet"},
		{"Forward PTR lookup", "queries a name server of the Internet"},
		{"[Provider:GCE]", "needs a cloud"},
		{
			"should set TCP CLOSE_WAIT timeout",
			"the sysctls of TCP timeouts in connection tracking are read-only in a network namespace",
		},
		{"should be rejected for evicted pods", "kubelet evicts no pods on this cluster"},
		{"[Feature:Networking-Performance]", "measures, with a program that the image lacks"},
		{"[Feature:PerformanceDNS]", "measures the DNS server"},
		{"Granular Checks: Pods should function for intra-pod communication: sctp", noSCTPSockets},
		{"Granular Checks: Pods should function for node-pod communication: sctp", noSCTPSockets},
		{"-Service: sctp", noSCTPSockets},
	}
}

const noSCTPSockets = "the kernel has no SCTP sockets, and the SCTP emulator does not support /dial"

// endToEnd returns a suite of the end-to-end tests of Kubernetes whose names match an expression,
// except those that are excluded. The argument processes is the number of parallel Ginkgo
// processes. Fewer tests than minTests are an error.
func endToEnd(name, title, tests string, processes, minTests int, excluded []reason) suite {
	return suite{
		name: name, title: title, minTests: minTests,
		version: func(c *cluster) (string, error) {
			printed, err := exec.Command(c.bin("kubernetes/kubectl"), "version", "--client").Output()
			if err != nil {
				return "", err
			}
			_, version, _ := strings.Cut(string(printed), "Client Version: ")
			version, _, _ = strings.Cut(version, "\n")
			return version, nil
		},
		command: func(c *cluster, folder, focus string) []string {
			selected := tests
			if focus != "" {
				// Ginkgo joins several --focus with "or".
				selected = "(" + tests + ").*(" + focus + ")"
			}
			args := []string{
				c.bin("kubernetes/ginkgo"), "run", "--no-color", "-v", "--timeout=3h", "--keep-going",
				fmt.Sprintf("--procs=%d", processes), "--focus=" + selected,
				"--output-dir=" + folder, "--junit-report=junit.xml",
			}
			for _, skip := range excluded {
				args = append(args, "--skip="+regexp.QuoteMeta(skip.test))
			}
			return append(args, c.bin("kubernetes/e2e.test"), "--",
				"--provider=skeleton", "--kubeconfig="+c.kubeconfig("admin"), "--disable-log-dump",
				fmt.Sprintf("--num-nodes=%d", c.Nodes))
		},
		results: func(folder string) ([]result, error) {
			return ginkgoResults(filepath.Join(folder, "junit.xml"), tests, excluded)
		},
		progress: func(line string) string { return startsWith(line, "• ", "S [SKIPPED]", "[sig-network]") },
	}
}
