// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"github.com/wayleave/wayleave/tools/cluster/internal/machine"
	"github.com/wayleave/wayleave/tools/cluster/internal/measure"
	"github.com/wayleave/wayleave/tools/cluster/internal/pki"
)

const (
	gaugeImage       = "cluster.local/gauge:dev"
	compareNamespace = "compare"
	// manyLabel is on the policies that replacePolicies made.
	manyLabel    = "wayleave.dev/compare"
	policiesPath = "/apis/networking.k8s.io/v1/namespaces/" + compareNamespace + "/networkpolicies"
	denyPath     = policiesPath + "/" + denyName
	denyName     = "deny"
	// churnPods is the number of pods that are made and deleted in a round.
	churnPods = 30
	// probing is how long targets are probed before an edit.
	probing = 2 * time.Second
)

// compareObject returns an object of the namespace.
func compareObject(version, kind, name string, labels, spec object) object {
	return object{
		"apiVersion": version, "kind": kind, "spec": spec,
		"metadata": object{"name": name, "namespace": compareNamespace, "labels": labels},
	}
}

func (m *comparison) pod(name, role string, i int) object {
	nodes := m.c.nodes()
	return compareObject("v1", "Pod", name, object{"role": role, "app": name}, object{
		"nodeName": nodes[i%len(nodes)], "automountServiceAccountToken": false, "enableServiceLinks": false,
		"terminationGracePeriodSeconds": 0,
		"containers": []object{{
			"name": "gauge", "image": gaugeImage, "imagePullPolicy": "Never", "args": []string{"serve"},
		}},
	})
}

// makePods makes the client, the server on another node, and the targets on all nodes.
func (m *comparison) makePods(ctx context.Context) error {
	objects := []object{
		{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": compareNamespace}},
		m.pod("client", "client", 0), m.pod("server", "server", 1),
	}
	for i := range m.pods {
		objects = append(objects, m.pod(fmt.Sprintf("target%d", i), "target", i))
	}
	if err := m.send(ctx, "apply", objects); err != nil {
		return err
	}
	if err := m.ready(ctx, ""); err != nil {
		return err
	}
	servers, err := m.addressesOf(ctx, "server")
	if err != nil {
		return err
	}
	targets, err := m.addressesOf(ctx, "target")
	if err != nil {
		return err
	}
	if len(servers) != 1 || len(targets) != m.pods {
		return fmt.Errorf("%d servers and %d of %d targets have an address", len(servers), len(targets), m.pods)
	}
	m.server, m.targets = servers[0], targets
	return nil
}

// podAddress is the IPv4 address of a pod, and its node.
type podAddress struct{ address, node string }

// addressesOf returns the addresses of the pods with a role.
func (m *comparison) addressesOf(ctx context.Context, role string) (pods []podAddress, err error) {
	printed, err := m.c.kubectlCommand(ctx, "-n", compareNamespace, "get", "pods", "-l", "role="+role,
		"-o", `jsonpath={range .items[*]}{.status.podIP} {.spec.nodeName}{"\n"}{end}`).Output()
	for line := range strings.Lines(string(printed)) {
		if address, node, found := strings.Cut(strings.TrimSpace(line), " "); found && address != "" {
			pods = append(pods, podAddress{address, node})
		}
	}
	return pods, err
}

func addresses(pods []podAddress) []string {
	out := make([]string, len(pods))
	for i, pod := range pods {
		out[i] = pod.address
	}
	return out
}

// setQueuedPods limits queueing to the pods that policies select, for an implementation that needs
// it.
func (m *comparison) setQueuedPods(ctx context.Context, i implementation, pods ...podAddress) error {
	if i.setQueuedPods == nil {
		return nil
	}
	return i.setQueuedPods(m, ctx, pods)
}

// denyAll returns a policy that denies all targets.
func denyAll() object {
	return compareObject("networking.k8s.io/v1", "NetworkPolicy", denyName, nil, object{
		"podSelector": object{"matchLabels": object{"role": "target"}}, "policyTypes": []string{"Ingress"},
	})
}

func (m *comparison) ready(ctx context.Context, selector string) error {
	return m.c.kubectl(ctx, "-n", compareNamespace, "wait", "--for=condition=Ready", "pod", "-l", "role"+selector,
		"--timeout=600s")
}

// send passes objects to a command of kubectl.
func (m *comparison) send(ctx context.Context, command string, objects []object) error {
	encoded, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		return err
	}
	cmd := m.c.kubectlCommand(ctx, command, "-f", "-")
	cmd.Stdin = bytes.NewReader(encoded)
	return output(cmd)
}

func (m *comparison) cleanUp(ctx context.Context) error {
	var errs []error
	for _, i := range implementations() {
		errs = append(errs, i.stop(m, ctx))
	}
	return errors.Join(
		errors.Join(errs...),
		m.c.kubectl(ctx, "delete", "namespace", compareNamespace, "--ignore-not-found", "--timeout=300s"),
		m.restartAgents(ctx, true),
	)
}

// manyPolicies returns policies for the egress of the targets. No measured packet matches these
// policies.
func manyPolicies(n, pods int) []object {
	var out []object
	for i := range n {
		out = append(out, compareObject("networking.k8s.io/v1", "NetworkPolicy", fmt.Sprintf("egress%d", i),
			object{manyLabel: "true"}, object{
				"podSelector": object{"matchLabels": object{"app": fmt.Sprintf("target%d", i%pods)}},
				"policyTypes": []string{"Egress"},
				"egress": []object{{
					"to": []object{block(201, i)}, "ports": []object{{"protocol": "TCP", "port": 80}},
				}},
			}))
	}
	return out
}

// serverPolicies returns policies for the ingress of the server. Only the last one allows the
// client.
func serverPolicies(n int) []object {
	var out []object
	for i := range n {
		from := block(202, i)
		if i == n-1 {
			from = object{"podSelector": object{"matchLabels": object{"role": "client"}}}
		}
		out = append(out, compareObject("networking.k8s.io/v1", "NetworkPolicy", fmt.Sprintf("ingress%04d", i),
			object{manyLabel: "true"}, object{
				"podSelector": object{"matchLabels": object{"role": "server"}},
				"policyTypes": []string{"Ingress"}, "ingress": []object{{"from": []object{from}}},
			}))
	}
	return out
}

// block returns a peer with an address that no pod has.
func block(net, i int) object {
	return object{"ipBlock": object{"cidr": fmt.Sprintf("10.%d.%d.%d/32", net, i/256, i%256)}}
}

func (m *comparison) replacePolicies(ctx context.Context, policies []object) error {
	// kubectl would delete them one by one.
	_, err := m.write(ctx, "DELETE", policiesPath+"?labelSelector="+url.QueryEscape(manyLabel), nil)
	if err != nil {
		return err
	}
	return m.send(ctx, "create", policies)
}

// edit denies all targets and allows them again.
func (m *comparison) edit(ctx context.Context, i implementation, add func(string, float64)) error {
	if i.name == noneName {
		return nil
	}
	if err := m.setQueuedPods(ctx, i, m.targets...); err != nil {
		return err
	}
	for range m.edits {
		for _, e := range []struct {
			verb, until, method, path string
			body                      object
		}{{"deny", "denied", "POST", policiesPath, denyAll()}, {"allow", "allowed", "DELETE", denyPath, nil}} {
			first, last, err := m.effect(ctx, i, e.until, e.method, e.path, e.body)
			if err != nil {
				return err
			}
			if first < 0 {
				fmt.Printf("edit discarded: a pod's result changed before the write; ")
				continue
			}
			row := fmt.Sprintf("%s %d pods: ", e.verb, len(m.targets))
			add(row+"first pod "+e.until+" [ms]", milliseconds(first))
			add(row+"last pod "+e.until+" [ms]", milliseconds(last))
		}
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// effect sends a write to the API. It returns the send times of two probes, from the write on: the
// first with the new result and the last with the old result.
func (m *comparison) effect(
	ctx context.Context, i implementation, until, method, path string, body object,
) (first, last time.Duration, err error) {
	var changes measure.Changes
	watched := make(chan error, 1)
	go func() {
		args := []string{"watch", "--until=" + until, "--time=150s"}
		if i.interval > 0 {
			args = append(args, "--interval="+i.interval.String())
		}
		watched <- m.gauge(ctx, &changes, append(args, addresses(m.targets)...)...)
	}()
	select {
	case <-ctx.Done():
	case <-time.After(max(probing, 2*i.interval)):
	}
	write, err := m.write(ctx, method, path, body)
	if err = errors.Join(err, <-watched); err != nil {
		return 0, 0, err
	}
	if len(changes) < len(m.targets) {
		return 0, 0, fmt.Errorf("%d of %d pods are %s after 150 s", len(changes), len(m.targets), until)
	}
	first = time.Hour
	for _, change := range changes {
		first, last = min(first, change.FirstNew.Sub(write.Sent)), max(last, change.LastOld.Sub(write.Sent))
	}
	return first, last, nil
}

// write sends a request to the API server from the network of the control plane.
func (m *comparison) write(ctx context.Context, method, path string, body object) (w measure.Write, err error) {
	control, err := machine.Open(m.c.machine(controlName))
	if err != nil {
		return w, err
	}
	cmd := control.NetCommand(ctx, m.c.bin("cluster-programs/gauge"), "write", "--server="+apiServer, "--token=admin",
		"--ca="+m.c.state("pki", pki.CACertificate), method, path)
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return w, err
		}
		cmd.Stdin = bytes.NewReader(encoded)
	}
	return w, decode(cmd, &w)
}

// gauge runs the program in the client.
func (m *comparison) gauge(ctx context.Context, into any, args ...string) error {
	return m.gaugeIn(ctx, "client", into, args...)
}

// gaugeIn runs the program in a pod.
func (m *comparison) gaugeIn(ctx context.Context, pod string, into any, args ...string) error {
	return decode(m.c.kubectlCommand(ctx, append([]string{"-n", compareNamespace, "exec", pod, "--", "/gauge"},
		args...)...), into)
}

// decode decodes the output of a command.
func decode(cmd *exec.Cmd, into any) error {
	var problem bytes.Buffer
	cmd.Stderr = &problem
	printed, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(problem.String()))
	}
	return json.Unmarshal(printed, into)
}

// connections opens connections to the server with several numbers of policies.
func (m *comparison) connections(ctx context.Context, i implementation, add func(string, float64)) error {
	if err := m.setQueuedPods(ctx, i, m.server); err != nil {
		return err
	}
	for _, n := range m.policies {
		if err := m.replacePolicies(ctx, serverPolicies(n)); err != nil {
			return err
		}
		if err := m.waitIdle(ctx, i); err != nil {
			return err
		}
		if err := m.checkServer(ctx, i.name != noneName); err != nil {
			return err
		}
		var result measure.Connections
		if err := m.gauge(ctx, &result, "connect", "--to="+m.server.address); err != nil {
			return err
		}
		with := fmt.Sprintf("%d policies: ", n)
		add(with+"connections per second", result.PerSecond)
		add(with+"connect, median [us]", float64(result.Median)/float64(time.Microsecond))
		add(with+"connect, 99 % [us]", float64(result.P99)/float64(time.Microsecond))
		add(with+"failed", float64(result.Failed))
	}
	return nil
}

// checkServer fails if policy does not deny a target, which no policy allows, to connect to the
// server.
func (m *comparison) checkServer(ctx context.Context, enforced bool) error {
	var result measure.Connections
	if err := m.gaugeIn(ctx, "target0", &result, "connect", "--to="+m.server.address, "--time=2s"); err != nil {
		return err
	}
	if enforced == (result.Opened > 0) {
		return fmt.Errorf("target0 opened %d connections; policy denies them: %t", result.Opened, enforced)
	}
	return nil
}

// churn makes and deletes pods.
func (m *comparison) churn(ctx context.Context, i implementation, add func(string, float64)) error {
	before, err := m.consumed(i)
	if err != nil {
		return err
	}
	var pods []object
	for i := range churnPods {
		pods = append(pods, m.pod(fmt.Sprintf("churn%d", i), "churn", i))
	}
	if err := m.send(ctx, "create", pods); err != nil {
		return err
	}
	if err := m.ready(ctx, "=churn"); err != nil {
		return err
	}
	if err := m.c.kubectl(ctx, "-n", compareNamespace, "delete", "pods", "-l", "role=churn"); err != nil {
		return err
	}
	if err := m.waitIdle(ctx, i); err != nil {
		return err
	}
	after, err := m.consumed(i)
	if err != nil {
		return err
	}
	add("churn: CPU time [s]", (after.processor - before.processor).Seconds())
	return nil
}
