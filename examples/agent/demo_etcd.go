// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/examples/agent/internal/connectivity"
	"github.com/wayleave/wayleave/examples/agent/internal/daemon"
	"github.com/wayleave/wayleave/examples/agent/internal/node"
	"github.com/wayleave/wayleave/examples/agent/internal/probe"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// sharedNodes is how many nodes share the demo's etcd.
const sharedNodes = 3

// sharedPods returns the manifests of the pods on all nodes: two on each, and a namespace for them.
func sharedPods() string {
	out := "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
	for i := 1; i <= sharedNodes; i++ {
		for j, app := range []string{"web", "client"} {
			out += fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: %s-%d, labels: {app: %s}}
spec:
  nodeName: n%d
  containers: [{name: main, ports: [{name: http, containerPort: 80}, {name: admin, containerPort: 9000}]}]
status:
  podIPs: [{ip: 10.65.%d.%d}, {ip: "2001:db8:65:%d::%d"}]
`, app, i, app, i, i, 10+j, i, 10+j)
		}
	}
	return out
}

// sharedPolicy is the policy that the demo writes.
const sharedPolicy = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: web}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Ingress]
  ingress:
    - from: [{podSelector: {matchLabels: {app: client}}}]
      ports: [{port: http}]
`

// sharedDemo is one run of the demonstration of nodes that share an etcd.
type sharedDemo struct {
	cli.Console
	store    *demoStore
	objects  *etcd.Store
	closes   []func() error // called at the end, the last one first
	nodes    []*sharedNode
	ports    connectivity.Ports
	measured int
	failures []string
}

// sharedNode is a node with an agent on it.
type sharedNode struct {
	name    string
	node    *node.Node
	servers []*probe.Server
	agent   daemon.Config
}

// demonstrateEtcd runs the demo from beginning to end.
func demonstrateEtcd(ctx context.Context, c cli.Console) (err error) {
	started := time.Now()
	ran, code, err := netns.EnsureRoot()
	switch {
	case err != nil:
		return err
	case ran && code != 0:
		return cli.ExitStatus(code)
	case ran:
		return nil
	}
	d := &sharedDemo{Console: c}
	defer func() {
		for i := range d.closes {
			err = errors.Join(err, d.closes[len(d.closes)-1-i]())
		}
	}()
	if err := d.build(); err != nil {
		return err
	}
	if err := d.stages(ctx); err != nil {
		return err
	}
	d.Printf("\n%d flows measured, %d differ from policy; %.1f s in all\n", d.measured, len(d.failures),
		time.Since(started).Seconds())
	for _, f := range d.failures {
		d.Printf("  DIFFERS: %s\n", f)
	}
	if len(d.failures) > 0 {
		return fmt.Errorf("demo: %d flows differ from policy: see DIFFERS above", len(d.failures))
	}
	return nil
}

// build starts the etcd and makes the nodes, without agents.
func (d *sharedDemo) build() (err error) {
	began := time.Now()
	if d.store, err = startStore(); err != nil {
		return err
	}
	d.closes = append(d.closes, d.store.close)
	client, err := d.client(d.store.ns, fmt.Sprintf("http://127.0.0.1:%d", etcdPort))
	if err != nil {
		return err
	}
	if d.objects, err = etcd.NewStore(etcd.StoreConfig{Client: client}); err != nil {
		return err
	}
	resources, problems := stream{"pods": []byte(sharedPods())}.decode(false)("", nil)
	if err := errors.Join(problems...); err != nil {
		return err
	}
	for i := 1; i <= sharedNodes; i++ {
		if err := d.addNode(fmt.Sprintf("n%d", i), resources); err != nil {
			return err
		}
	}
	d.Printf("An etcd and %d nodes with two workloads and a host outside each, linked to it, built in %d ms\n",
		sharedNodes, time.Since(began).Milliseconds())
	return nil
}

func (d *sharedDemo) client(ns *netns.NS, endpoint string) (*etcd.Client, error) {
	client, err := clientFrom(ns, endpoint)
	if err != nil {
		return nil, err
	}
	d.closes = append(d.closes, client.Close)
	return etcd.NewClient(etcd.Config{Etcd: client})
}

// addNode makes a node with its endpoints among the resources, and links it to the etcd.
func (d *sharedDemo) addNode(name string, resources []policy.Resource) error {
	var endpoints []*policy.WorkloadEndpoint
	for _, r := range resources {
		if e, ok := r.(*policy.WorkloadEndpoint); ok && e.Node == name {
			endpoints = append(endpoints, e)
		}
	}
	n := &sharedNode{name: name}
	var err error
	if n.node, err = node.Build(endpoints, outside()); err != nil {
		return err
	}
	d.closes = append(d.closes, n.node.Close)
	for _, p := range n.node.Parties {
		server, err := probe.Serve(p)
		if err != nil {
			return err
		}
		n.servers = append(n.servers, server)
		d.closes = append(d.closes, server.Close)
	}
	endpoint, err := d.store.link(n.node.NS, name)
	if err != nil {
		return err
	}
	client, err := d.client(n.node.NS, endpoint)
	if err != nil {
		return err
	}
	n.agent = daemon.Config{
		Below: []settings.Layer{{Source: "demo", Values: map[string]string{
			"node": name, "forward-ipv6": "true", "log-level": "WARN", "endpoint-dir": "", "socket": "",
			"http-address": "",
		}}},
		NetNS: n.node.NS.FD(), Etcd: client, Log: d.Err,
	}
	d.nodes = append(d.nodes, n)
	return nil
}

// stages fills the store, starts the agents, and measures twice: without the policy, and with it.
func (d *sharedDemo) stages(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitTimeout,
		fmt.Errorf("demo: not applied within %s: see the log above", waitTimeout))
	defer cancel()
	for _, n := range d.nodes {
		if _, err := d.objects.Put(ctx, &policy.Node{Name: n.name}, etcd.Absent); err != nil {
			return err
		}
	}
	pods := stream{"pods": []byte(sharedPods())}
	result, err := pods.write(ctx, d.objects, applyOptions{owner: "pods"})
	if err != nil {
		return err
	}
	if err := d.objects.Init(ctx); err != nil {
		return err
	}
	d.startAgents()
	d.Printf("\n== Before policy: pods on all nodes, and an agent each\n")
	began := time.Now()
	query := func() (etcd.Progress, error) { return d.objects.AppliedAt(ctx, result.Revision) }
	if _, err := follow(ctx, query, d.printProgress(began)); err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	if err := d.measure(ctx, "before policy"); err != nil {
		return err
	}
	d.Printf("\n== One policy, written once:\n\n%s\n",
		"   "+strings.ReplaceAll(strings.TrimSpace(sharedPolicy), "\n", "\n   "))
	if err := d.writePolicy(ctx); err != nil {
		return err
	}
	return d.measure(ctx, "with policy")
}

// writePolicy writes the policy, and prints the progress until the policy is applied on every
// node. It starts to watch the progress before it writes the policy.
func (d *sharedDemo) writePolicy(ctx context.Context) error {
	s := stream{"policy": []byte(sharedPolicy)}
	resources, problems := s.decode(false)("", nil)
	if err := errors.Join(problems...); err != nil || len(resources) != 1 {
		return errors.Join(errors.New("demo: want one policy"), err)
	}
	key := resources[0].Key()
	began := time.Now()
	written := make(chan error, 1)
	go func() {
		_, err := s.write(ctx, d.objects, applyOptions{owner: "policy"})
		written <- err
	}()
	_, err := follow(ctx, func() (etcd.Progress, error) {
		for {
			r, err := d.objects.Applied(ctx, key)
			if !errors.Is(err, etcd.ErrNotFound) {
				return r, err
			}
			select {
			case err := <-written:
				written <- err
				if err != nil {
					return r, err
				}
			default:
			}
		}
	}, d.printProgress(began))
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return <-written
}

// printProgress returns a function that prints the progress of the nodes.
func (d *sharedDemo) printProgress(began time.Time) func(etcd.Progress) {
	return func(r etcd.Progress) {
		var states []string
		for _, n := range r.Nodes {
			states = append(states, n.Node+" "+string(n.State))
		}
		d.Printf("   applied on %s after %.0f ms (%s)\n", r, float64(time.Since(began).Microseconds())/1000,
			strings.Join(states, ", "))
	}
}

// startAgents starts an agent on every node.
func (d *sharedDemo) startAgents() {
	for _, n := range d.nodes {
		// The agent has its own context: a function of closes ends the agent before the things that
		// it uses are closed.
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- daemon.Run(ctx, n.agent) }()
		d.closes = append(d.closes, func() error {
			cancel()
			if err := <-ended; err != nil {
				return fmt.Errorf("demo: agent on %s: %w", n.name, err)
			}
			return nil
		})
	}
}

// measure sends every flow on every node, and compares the results with the policy in the store.
func (d *sharedDemo) measure(ctx context.Context, when string) error {
	list, err := d.objects.List(ctx, etcd.Query{})
	if err != nil {
		return err
	}
	world := verdict.World{}
	for _, o := range list.Objects {
		world[o.Resource.Key()] = o.Resource
	}
	for _, n := range d.nodes {
		progress := cli.NewProgress(d.Console, "sending packets")
		m, err := connectivity.Measure(ctx, connectivity.Config{
			Parties: n.node.Parties, Evaluator: verdict.New(world), Ports: &d.ports,
			Probe: func(ctx context.Context, from, to int, flow verdict.Flow, wait time.Duration) probe.Answer {
				return probe.Send(ctx, probe.Probe{
					From: n.node.Parties[from].NS, To: n.servers[to], Flow: flow, Wait: wait,
				})
			},
		})
		progress.End()
		if err != nil {
			return err
		}
		passed, blocked := 0, 0
		for _, c := range m.Cells {
			switch c.Answer.Outcome {
			case probe.Passed:
				passed++
			case probe.Blocked:
				blocked++
			}
		}
		d.Printf("   %s: %d flows pass, %d are blocked\n", n.name, passed, blocked)
		d.measured += len(m.Cells)
		for _, difference := range m.Differences() {
			d.failures = append(d.failures, n.name+" "+when+": "+difference)
		}
	}
	return nil
}
