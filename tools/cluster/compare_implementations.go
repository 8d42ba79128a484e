// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/wayleave/wayleave/tools/cluster/internal/machine"
	"github.com/wayleave/wayleave/tools/cluster/internal/measure"
	"github.com/wayleave/wayleave/tools/cluster/internal/pki"
)

// implementation is an implementation of network policy.
type implementation struct {
	name, title string
	// program is a path below bin; empty: the cluster has it.
	program string
	// process is part of the command line of its processes on the nodes.
	process string
	// interval is the time between two probes of a pod during an edit. It must be so long that the
	// probes are not already lost before the edit.
	interval time.Duration
	start    func(m *comparison, ctx context.Context) error // methods
	stop     func(m *comparison, ctx context.Context) error
	// setQueuedPods limits queueing to the pods that policies select; nil if the implementation
	// does that itself.
	setQueuedPods func(m *comparison, ctx context.Context, pods []podAddress) error
}

const (
	noneName   = "none"
	routerName = "kube-router"
	queueName  = "kube-network-policies"
	// queueNumber is the NFQUEUE number; queueSet is the ipset of queued pods.
	queueNumber = "98"
	queueSet    = "compare"
)

func implementations() []implementation {
	return []implementation{
		{
			name: noneName, title: "the agents of Wayleave without policy, as a baseline", process: "/agent\x00run",
			start: func(m *comparison, ctx context.Context) error { return m.restartAgents(ctx, false) },
			stop:  func(*comparison, context.Context) error { return nil },
		},
		{
			name: "wayleave", title: "the agents of this repository, as installed", process: "/agent\x00run",
			start: func(m *comparison, ctx context.Context) error { return m.restartAgents(ctx, true) },
			stop:  func(*comparison, context.Context) error { return nil },
		},
		{
			name: routerName, title: "its firewall alone, IPv4 only",
			program: "suites/kube-router", process: routerName + "\x00",
			start: (*comparison).startRouter, stop: (*comparison).stopRouter,
		},
		{
			name: queueName, title: "IPv4 only, with iptables rules instead of its own",
			program: "suites/kube-network-policies", process: queueName + "\x00", interval: 3 * time.Second,
			start: (*comparison).startQueue, stop: (*comparison).stopQueue,
			setQueuedPods: (*comparison).replaceQueueSet,
		},
	}
}

// The kinds of policy, which agents omit while another implementation is measured.
const (
	networkPolicies        = "networkpolicies.networking.k8s.io"
	clusterNetworkPolicies = "clusternetworkpolicies.policy.networking.k8s.io"
)

// restartAgents starts the agents of Wayleave again, with or without the kinds of policy. Then it
// checks that they do or do not enforce policy: otherwise a measurement of another implementation
// would be one of both.
func (m *comparison) restartAgents(ctx context.Context, policy bool) error {
	omit := "WAYLEAVE_KUBERNETES_OMIT=" + networkPolicies + "," + clusterNetworkPolicies
	if policy {
		omit = "WAYLEAVE_KUBERNETES_OMIT-" // removes it
	}
	for _, args := range [][]string{
		{"set", "env", "daemonset/wayleave-agent", "--containers=agent", omit},
		{"rollout", "restart", "daemonset/wayleave-agent"},
		{"rollout", "status", "daemonset/wayleave-agent", "--timeout=180s"},
	} {
		if err := m.c.kubectl(ctx, append([]string{"-n", "wayleave"}, args...)...); err != nil {
			return err
		}
	}
	err := m.onNodes(func(node *machine.Machine) error {
		printed, err := node.Command(ctx, m.c.bin("agent"), "status", "-o", "json").Output()
		if err != nil {
			return fmt.Errorf("status of the agent: %w", err)
		}
		reads, err := readsPolicies(printed)
		if err == nil && reads != policy {
			err = fmt.Errorf("the agent reads policies: %t, want %t", reads, policy)
		}
		return err
	})
	if err != nil || policy || len(m.targets) == 0 {
		return err
	}
	return m.requireNoPolicy(ctx)
}

// readsPolicies reports whether an agent with this status reads policies from the API.
func readsPolicies(status []byte) (bool, error) {
	var decoded struct {
		Kubernetes struct {
			Kinds []struct{ Kind, State string }
		}
	}
	if err := json.Unmarshal(status, &decoded); err != nil {
		return false, fmt.Errorf("status of the agent: %w", err)
	}
	for _, kind := range decoded.Kubernetes.Kinds {
		if kind.Kind == networkPolicies {
			return kind.State != "omitted", nil
		}
	}
	return false, fmt.Errorf("status of the agent: no kind %s", networkPolicies)
}

// requireNoPolicy returns an error unless all targets answer although a policy denies them.
func (m *comparison) requireNoPolicy(ctx context.Context) error {
	if _, err := m.write(ctx, "POST", policiesPath, denyAll()); err != nil {
		return err
	}
	select { // long enough for a policy to take effect
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(3 * time.Second):
	}
	var changes measure.Changes
	watch := append([]string{"watch", "--until=allowed", "--time=10s"}, addresses(m.targets)...)
	err := m.gauge(ctx, &changes, watch...)
	if err == nil && len(changes) < len(m.targets) {
		err = fmt.Errorf("policy still applies: only %d of %d denied pods answer", len(changes), len(m.targets))
	}
	_, problem := m.write(context.WithoutCancel(ctx), "DELETE", denyPath, nil)
	return errors.Join(err, problem)
}

// onNodes runs a function for each node.
func (m *comparison) onNodes(run func(node *machine.Machine) error) error {
	for _, name := range m.c.nodes() {
		node, err := machine.Open(m.c.machine(name))
		if err != nil {
			return err
		}
		if err := run(node); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// runOnNodes runs another program on all nodes.
func (m *comparison) runOnNodes(program func(node string) machine.Program) error {
	return m.onNodes(func(node *machine.Machine) error {
		return node.Run(append(m.c.programs(node.Name), program(node.Name)))
	})
}

// stopExtraPrograms stops all programs that runOnNodes started.
func (m *comparison) stopExtraPrograms() error {
	return m.onNodes(func(node *machine.Machine) error { return node.Run(m.c.programs(node.Name)) })
}

// onNode runs a script of the shell on a node.
func (m *comparison) onNode(ctx context.Context, node *machine.Machine, script string) error {
	cmd := node.Command(ctx, "sh", "-ec", script)
	cmd.Env = append(os.Environ(), "PATH="+m.c.path())
	return output(cmd)
}

// waitForEnd returns a line of the shell that fails if processes that pgrep finds do not end.
func waitForEnd(arguments string) string {
	return "for i in $(seq 150); do pgrep " + arguments + " >/dev/null || break; sleep 0.2; done; " +
		"if pgrep " + arguments + "; then echo 'these do not end'; exit 1; fi"
}

func (m *comparison) startRouter(ctx context.Context) error {
	if err := m.restartAgents(ctx, false); err != nil {
		return err
	}
	services, _, _ := strings.Cut(serviceCIDRs, ",")
	return m.runOnNodes(func(node string) machine.Program {
		return machine.Program{Name: routerName, Env: []string{"PATH=" + m.c.path()}, Args: []string{
			m.c.bin("suites/kube-router"), "--kubeconfig=" + m.c.kubeconfig("admin"), "--run-firewall=true",
			"--run-router=false", "--run-service-proxy=false", "--enable-cni=false", "--hostname-override=" + node,
			"--health-port=0", "--service-cluster-ip-range=" + services, "--enable-ipv6=false", "--v=1",
		}}
	})
}

// stopRouter ends kube-router and deletes all rules of the tables filter and mangle, and all
// ipsets. choose makes sure that kube-proxy has none there.
func (m *comparison) stopRouter(ctx context.Context) error {
	if err := m.stopExtraPrograms(); err != nil {
		return err
	}
	return m.onNodes(func(node *machine.Machine) error {
		return m.onNode(ctx, node, waitForEnd("-x kube-router")+`
			iptables -F; iptables -X; iptables -t mangle -F; ipset destroy`)
	})
}

// startQueue starts kube-network-policies. It reads its access to the API from the files of a pod.
// It needs rules that queue packets for it: its own rules need the expression queue of nftables,
// which kernels may lack.
func (m *comparison) startQueue(ctx context.Context) error {
	if err := m.restartAgents(ctx, false); err != nil {
		return err
	}
	// By default all pods: then no policy is missed, whichever pods it selects.
	pods, _, _ := strings.Cut(podCIDRs, ",")
	const rule, queue = "iptables -t mangle -A POSTROUTING ", " -j NFQUEUE --queue-num " + queueNumber
	rules := strings.Join([]string{
		"ipset create " + queueSet + " hash:net",
		"ipset add " + queueSet + " " + pods,
		rule + "-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
		rule + "-m set --match-set " + queueSet + " src" + queue,
		rule + "-m set --match-set " + queueSet + " dst" + queue,
	}, "\n")
	access := "mkdir -p /run/secrets/kubernetes.io/serviceaccount; cd /run/secrets/kubernetes.io/serviceaccount; " +
		"cp " + m.c.state("pki", pki.CACertificate) + " ca.crt; printf admin > token"
	err := m.onNodes(func(node *machine.Machine) error { return m.onNode(ctx, node, access) })
	if err != nil {
		return err
	}
	host, port, _ := strings.Cut(strings.TrimPrefix(apiServer, "https://"), ":")
	err = m.runOnNodes(func(node string) machine.Program {
		// It ends by SIGINT only.
		const wrapper = `trap 'kill -INT $p' TERM; "$@" & p=$!; wait $p; wait $p`
		return machine.Program{
			Name: queueName,
			Env:  []string{"PATH=" + m.c.path(), "KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port},
			Args: []string{
				"/bin/sh", "-c", wrapper, "sh", m.c.bin("suites/kube-network-policies"), "--hostname-override=" + node,
				"--nfqueue-id=" + queueNumber, "--disable-nri", "--netfilter-bug-1766-fix=false", "--fail-open=false",
				// Its manifest has --v=2, which logs each packet.
				"--metrics-bind-address=127.0.0.1:9080", "--v=0",
			},
		}
	})
	if err != nil {
		return err
	}
	return m.onNodes(func(node *machine.Machine) error {
		// The queue has a reader once it has read the API.
		return m.onNode(ctx, node, `for i in $(seq 150); do
				grep -q " `+queueNumber+` " /proc/net/netfilter/nfnetlink_queue && break
				sleep 0.2
			done
			grep -q " `+queueNumber+` " /proc/net/netfilter/nfnetlink_queue
			`+rules)
	})
}

// replaceQueueSet queues packets only of these pods, each on its node. So do the rules of
// kube-network-policies with the pods that policies select.
func (m *comparison) replaceQueueSet(ctx context.Context, pods []podAddress) error {
	return m.onNodes(func(node *machine.Machine) error {
		script := "ipset flush " + queueSet
		for _, pod := range pods {
			if pod.node == node.Name {
				script += "; ipset add " + queueSet + " " + pod.address
			}
		}
		return m.onNode(ctx, node, script)
	})
}

func (m *comparison) stopQueue(ctx context.Context) error {
	err := m.onNodes(func(node *machine.Machine) error {
		return m.onNode(ctx, node, "iptables -t mangle -F; ipset destroy "+queueSet+" 2>/dev/null || true")
	})
	if err != nil {
		return err
	}
	if err := m.stopExtraPrograms(); err != nil {
		return err
	}
	return m.onNodes(func(node *machine.Machine) error {
		return m.onNode(ctx, node, waitForEnd(`-f "[s]uites/kube-network-policies"`)+`
			nft delete table inet kube-network-policies 2>/dev/null || true`)
	})
}
