// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
)

const (
	// maxPods is the number of addresses for pods: 10.0.0.0/9. Later addresses are for the scenario
	// churn.
	maxPods = 1 << 23
	// fleetNamespace has one pod on each node, and a policy for these pods. The rules of the policy
	// select the pods that the scenarios change. Therefore every node has a set of these pods.
	fleetNamespace, fleetPolicy = "fleet", "fleet"
	// batchNamespace is relabelled in the scenario namespace.
	batchNamespace = "batch"
	batchPods      = 50
	// podsPerNamespace is the number of pods in each of the other namespaces.
	podsPerNamespace = 100
	// clientLabel is the label that makes a pod, or the pods of a namespace, members of that set.
	clientLabel = "client"
)

// world has the objects of the cluster, in the form in which they were last written.
type world struct {
	cfg        config
	namespaces []*corev1.Namespace
	accounts   []*corev1.ServiceAccount
	nodes      []*corev1.Node
	pods       []*corev1.Pod
	policies   []*networkingv1.NetworkPolicy
	// target is the pod whose label changes, batch the namespace whose label changes, and edited
	// the policy whose port changes.
	target *corev1.Pod
	batch  *corev1.Namespace
	edited *networkingv1.NetworkPolicy
	port   uint16 // of the policy; each edit sets the next one
	// churned means that the namespace of the scenario churn exists.
	churned atomic.Bool
}

// newWorld returns the world at the beginning of a run.
func newWorld(cfg config) *world {
	w := &world{cfg: cfg, port: 8000}
	for i := range cfg.Nodes {
		w.nodes = append(w.nodes, newClusterNode(i))
	}
	w.addNamespace(fleetNamespace, "")
	for i := range cfg.Nodes {
		w.addPod(fleetNamespace, fmt.Sprintf("fleet-%05d", i), "fleet")
	}
	w.edited = newPolicy(fleetNamespace, fleetPolicy, "fleet", w.port)
	w.edited.Spec.Ingress[0].From = []networkingv1.NetworkPolicyPeer{
		{NamespaceSelector: &metav1.LabelSelector{}, PodSelector: matching(clientLabel, "true")},
		{NamespaceSelector: matching(clientLabel, "true")},
	}
	w.policies = append(w.policies, w.edited)
	rest := cfg.Nodes * (cfg.PodsPerNode - 1)
	w.addNamespace(batchNamespace, "batch")
	w.batch = w.namespaces[len(w.namespaces)-1]
	for i := range min(batchPods, rest/2) {
		w.addPod(batchNamespace, fmt.Sprintf("batch-%05d", i), "batch")
	}
	rest -= min(batchPods, rest/2)
	count := (rest + podsPerNamespace - 1) / podsPerNamespace
	for i := range rest {
		namespace, place := fmt.Sprintf("shop-%05d", i/podsPerNamespace), i%podsPerNamespace
		if place == 0 {
			w.addNamespace(namespace, fmt.Sprintf("team-%d", i/podsPerNamespace%10))
		}
		w.addPod(namespace, fmt.Sprintf("app-%d-7c9d8b6f5c-%05d", place%10, i), fmt.Sprintf("app-%d", place%10))
		if i == 0 {
			w.target = w.pods[len(w.pods)-1]
		}
	}
	for i := range cfg.Policies {
		namespace, app := fmt.Sprintf("shop-%05d", i%count), fmt.Sprintf("app-%d", i/count%10)
		p := newPolicy(namespace, fmt.Sprintf("allow-%05d", i), app, 8080)
		p.Spec.Ingress[0].From = []networkingv1.NetworkPolicyPeer{
			{PodSelector: matching("app", fmt.Sprintf("app-%d", (i/count+1)%10))},
			{NamespaceSelector: matching("team", fmt.Sprintf("team-%d", i%10)), PodSelector: matching("app", "app-0")},
		}
		w.policies = append(w.policies, p)
	}
	return w
}

func (w *world) addNamespace(name, team string) {
	n := newNamespace(name, team)
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: name}}
	w.namespaces, w.accounts = append(w.namespaces, n), append(w.accounts, a)
}

func newNamespace(name, team string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"team": team, corev1.LabelMetadataName: name},
	}}
}

// addPod adds the next pod. The pods go round the nodes.
func (w *world) addPod(namespace, name, app string) {
	i := len(w.pods)
	w.pods = append(w.pods, newPod(namespace, name, app, nodeName(i%w.cfg.Nodes), podAddress(i)))
}

func nodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

// podAddress returns the address of the pod with a number. Numbers from maxPods on are pods of the
// scenario churn.
func podAddress(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// churnPod returns a pod of the scenario churn.
func (w *world) churnPod(i int) *corev1.Pod {
	p := newPod("churn", fmt.Sprintf("churn-%06d", i), "churn", nodeName(i%w.cfg.Nodes), podAddress(maxPods+i))
	p.Labels[clientLabel] = "true"
	return p
}

func matching(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// newPolicy returns a policy that allows one port, from peers that the caller adds.
func newPolicy(namespace, name, app string, port uint16) *networkingv1.NetworkPolicy {
	number, protocol := intstr.FromInt32(int32(port)), corev1.ProtocolTCP
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: *matching("app", app),
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				Ports: []networkingv1.NetworkPolicyPort{{Protocol: &protocol, Port: &number}},
			}},
		},
	}
}

// toggle sets or removes the label that makes an object's pods members of the set. It returns the
// marks that this change leads to, and a patch that makes the same change.
func toggle(labels map[string]string) (expected func(netip.Addr) mark, patch string) {
	if labels[clientLabel] != "" {
		delete(labels, clientLabel)
		return removed, `{"metadata":{"labels":{"` + clientLabel + `":null}}}`
	}
	labels[clientLabel] = "true"
	return added, `{"metadata":{"labels":{"` + clientLabel + `":"true"}}}`
}

// editPort gives the policy of all nodes the next port. It returns the patch that does so.
func (w *world) editPort() string {
	w.port++
	number := intstr.FromInt32(int32(w.port))
	rule := &w.edited.Spec.Ingress[0]
	rule.Ports[0].Port = &number
	return fmt.Sprintf(`[{"op":"replace","path":"/spec/ingress/0/ports/0/port","value":%d}]`, w.port)
}

// batchAddresses returns the addresses of the pods of the namespace that is relabelled.
func (w *world) batchAddresses() (list []netip.Addr) {
	for _, p := range w.pods {
		if p.Namespace == batchNamespace {
			list = append(list, netip.MustParseAddr(p.Status.PodIP))
		}
	}
	return list
}

// objects returns all objects. An object comes after the objects that it refers to.
func (w *world) objects() (list []metav1.Object) {
	for _, o := range w.namespaces {
		list = append(list, o)
	}
	for _, o := range w.accounts {
		list = append(list, o)
	}
	for _, o := range w.nodes {
		list = append(list, o)
	}
	for _, o := range w.pods {
		list = append(list, o)
	}
	for _, o := range w.policies {
		list = append(list, o)
	}
	return list
}

// updates returns the resources of an object.
func updates(o metav1.Object) ([]policy.Update, error) {
	resources, problems := convert.Converter{}.Convert(o)
	if len(problems) > 0 {
		return nil, problems[0]
	}
	list := make([]policy.Update, 0, len(resources))
	for _, r := range resources {
		list = append(list, policy.Update{Key: r.Key(), Resource: r})
	}
	return list, nil
}

// state returns the state that a node must have: that of a new graph with all objects.
func (w *world) state(node string) (string, error) {
	graph, err := calcgraph.New(calcgraph.Config{Node: node})
	if err != nil {
		return "", err
	}
	for _, o := range w.objects() {
		list, err := updates(o)
		if err != nil {
			return "", err
		}
		for _, u := range list {
			graph.Update(u)
		}
	}
	graph.InSync()
	mirror := dptest.NewMirror()
	if err := mirror.Play(graph.Flush()); err != nil {
		return "", err
	}
	return mirror.State().String(), nil
}

// nodeNames returns the names of all nodes, in one list for each worker.
func nodeNames(cfg config) [][]string {
	shares := make([][]string, cfg.Processes)
	for i := range cfg.Nodes {
		at := i % cfg.Processes
		shares[at] = append(shares[at], nodeName(i))
	}
	return slices.DeleteFunc(shares, func(s []string) bool { return len(s) == 0 })
}
