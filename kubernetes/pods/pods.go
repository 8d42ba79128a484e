// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Config configures Pods. Node and Update are required.
type Config struct {
	// Node is the name of this node: spec.nodeName of its pods. Pods of other nodes are never
	// attached here.
	Node string
	// Converter converts the pods. Its Attachment must be nil.
	Converter convert.Converter
	// Update receives each change of an endpoint: the new endpoint, or only its key if it is
	// removed. Update may also receive an endpoint that has not changed, or the key of an endpoint
	// that did not exist. This happens for pods of other nodes, and for pods that were unknown
	// before. Update runs in the call that causes the change, and must not call a method of *Pods.
	Update func(policy.Update)
	// Report receives the errors of a pod, each a *convert.Error. While a pod has errors, calls of
	// methods for this pod may call Report again. If a pod of this node has errors and is not
	// attached, Attach and Detach of other pods also call Report for it. Once the pod has no errors
	// any more, Report is called without errors. Report may also be called without errors for a pod
	// of another node, and for a pod that was unknown before. Report must not call a method of
	// *Pods. Nil discards the errors.
	Report func(pod Ref, problems []error)
}

// Ref identifies a pod. A CNI plugin finds all three in CNI_ARGS: K8S_POD_NAMESPACE, K8S_POD_NAME
// and K8S_POD_UID.
type Ref struct {
	Namespace, Name string
	// UID distinguishes pods of the same name, such as those of a StatefulSet. For Attach and
	// Detach, pass the UID from CNI_ARGS. For a static pod, it differs from the UID of the mirror
	// pod in the API. Empty means any pod of that name.
	UID types.UID
}

// String returns namespace/name.
func (r Ref) String() string { return r.Namespace + "/" + r.Name }

// Key returns the key of the pod's endpoint.
func (r Ref) Key() policy.Key {
	return policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: r.Namespace, Name: r.Name}
}

// Pods makes workload endpoints of pods. New returns one.
type Pods struct {
	cfg Config
	mu  sync.Mutex
	// all has the pods of this node, and the attached pods. Pods keeps nothing of other pods.
	all map[name]*entry
	// links has, for each attached interface, its pod.
	links map[string]name
	// detached has the UIDs of the pods of this node whose interfaces were removed. order has the
	// same UIDs, the oldest first.
	detached map[types.UID]bool
	order    []types.UID
}

type name struct{ namespace, name string }

func (r Ref) name() name { return name{r.Namespace, r.Name} }

// maxDetached is the maximum number of detached pods to keep. The API deletes a pod soon after CNI
// DEL.
const maxDetached = 4096

// entry has the state of the pods of one name.
type entry struct {
	pod *corev1.Pod // nil if the API has none
	// attached is the attachment of the pod with the UID uid; nil if there is none. uid may be
	// unknown.
	attached *convert.Attachment
	uid      types.UID
	// If known is set, endpoint is what Update received last: an endpoint, or nil. If known is not
	// set, Update may have received an endpoint earlier, when the pod of this name was on another
	// node.
	endpoint *policy.WorkloadEndpoint
	known    bool
	// reported is set if the last call of Report had errors, or may have had errors. It may have
	// had errors if the pod was on another node.
	reported bool
}

// New returns a Pods that has no pods yet.
//
// Errors: Config.Node is empty, Config.Update is nil, or Config.Converter has an Attachment.
func New(cfg Config) (*Pods, error) {
	if cfg.Node == "" {
		return nil, errors.New("pods: Config.Node: required")
	}
	if cfg.Update == nil {
		return nil, errors.New("pods: Config.Update: required")
	}
	if cfg.Converter.Attachment != nil {
		return nil, errors.New("pods: Config.Converter.Attachment: must be nil")
	}
	if cfg.Report == nil {
		cfg.Report = func(Ref, []error) {}
	}
	return &Pods{
		cfg: cfg, all: map[name]*entry{}, links: map[string]name{}, detached: map[types.UID]bool{},
	}, nil
}

// Set adds or replaces a pod of any node, as the API has it. The caller must not change the pod
// afterwards.
func (p *Pods) Set(pod *corev1.Pod) {
	ref := Ref{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.all[ref.name()]; pod.Spec.NodeName == p.cfg.Node || e != nil && e.attached != nil {
		p.changeLocked(ref, true, func(e *entry) { e.pod = pod })
		return
	}
	delete(p.all, ref.name())
	endpoint, problems := p.cfg.Converter.Pod(pod)
	p.cfg.Report(ref, problems)
	p.update(ref, endpoint)
}

// Delete removes a pod that the API no longer has. The pod's attachment stays until Detach.
func (p *Pods) Delete(namespace, name string) {
	ref := Ref{Namespace: namespace, Name: name}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all[ref.name()] == nil {
		p.update(ref, nil)
		return
	}
	p.changeLocked(ref, true, func(e *entry) { e.pod = nil })
}

// update calls Update with the endpoint of a pod, or without one if it is nil.
func (p *Pods) update(ref Ref, endpoint *policy.WorkloadEndpoint) {
	u := policy.Update{Key: ref.Key()}
	if endpoint != nil {
		u.Resource = endpoint
	}
	p.cfg.Update(u)
}

// Attach records the interface and addresses that a pod has got on this node: its attachment. If
// Set has received the pod before, Attach passes the endpoint to Config.Update. Otherwise Set does
// so later. A second Attach replaces the first.
//
// Errors: the attachment has no interface, it has a value that no endpoint can have, or its
// interface is that of another attached pod. After an error, nothing has changed.
func (p *Pods) Attach(ref Ref, a convert.Attachment) error {
	probe := &policy.WorkloadEndpoint{
		Namespace: ref.Namespace, Name: ref.Name, Node: "node", Interface: a.Interface, MAC: a.MAC,
		Addresses: a.Addresses,
	}
	if err := probe.Validate(); err != nil {
		return fmt.Errorf("pods: attach %s: %w", ref, err)
	}
	a.Addresses = slices.Clone(a.Addresses)
	p.mu.Lock()
	defer p.mu.Unlock()
	if owner, taken := p.links[a.Interface]; taken && owner != ref.name() {
		return fmt.Errorf(
			"pods: attach %s: interface %s belongs to pod %s/%s", ref, a.Interface, owner.namespace, owner.name,
		)
	}
	p.changeLocked(ref, false, func(e *entry) {
		p.setLink(ref, e, &a)
		e.uid = ref.UID
		p.removeDetached(ref.UID)
	})
	p.refreshLocked()
	return nil
}

// Detach records that the interface of a pod was removed. If gone is true, no pod of that name is
// attached now: wait with WaitRemoved of the Driver until the endpoint is removed. If gone is
// false, a pod with the same name and another UID is attached, and stays attached. This happens
// because kubelet may call CNI DEL late, and repeatedly. It is no error if the pod has no
// attachment.
func (p *Pods) Detach(ref Ref) (gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changeLocked(ref, false, func(e *entry) {
		uid := ref.UID
		if e.attached != nil && (uid == "" || e.uid == "" || uid == e.uid) {
			uid = cmp.Or(uid, e.uid)
			p.setLink(ref, e, nil)
		}
		if uid == "" && e.pod != nil {
			uid = runtimeUID(e.pod)
		}
		p.addDetached(uid)
		gone = e.attached == nil
	})
	p.refreshLocked()
	return gone
}

// refreshLocked computes again the endpoints of this node's pods that have no attachment, because
// the addresses of attached pods may have changed.
func (p *Pods) refreshLocked() {
	for n, e := range p.all {
		if e.attached == nil && e.pod != nil {
			p.changeLocked(Ref{Namespace: n.namespace, Name: n.name}, false, func(*entry) {})
		}
	}
}

// hasAttachedLocked reports whether an address is that of an attached pod.
func (p *Pods) hasAttachedLocked(a netip.Addr) bool {
	for _, e := range p.all {
		if e.attached != nil && slices.Contains(e.attached.Addresses, a) {
			return true
		}
	}
	return false
}

// setLink replaces the attachment of an entry; nil removes it.
func (p *Pods) setLink(ref Ref, e *entry, a *convert.Attachment) {
	if e.attached != nil {
		delete(p.links, e.attached.Interface)
	}
	if e.attached = a; a != nil {
		p.links[a.Interface] = ref.name()
	}
}

// addDetached records that the interface of a pod was removed.
func (p *Pods) addDetached(uid types.UID) {
	if uid == "" || p.detached[uid] {
		return
	}
	p.detached[uid] = true
	if p.order = append(p.order, uid); len(p.order) > maxDetached {
		delete(p.detached, p.order[0])
		p.order = slices.Delete(p.order, 0, 1)
	}
}

// removeDetached removes a pod from the detached ones.
func (p *Pods) removeDetached(uid types.UID) {
	if p.detached[uid] {
		delete(p.detached, uid)
		p.order = slices.DeleteFunc(p.order, func(old types.UID) bool { return old == uid })
	}
}

// changeLocked changes the entry of one name, and calls Update if this changes the endpoint.
// fromAPI is set if the change comes from the API.
func (p *Pods) changeLocked(ref Ref, fromAPI bool, f func(*entry)) {
	key := ref.name()
	e := p.all[key]
	if e == nil {
		e = &entry{reported: true}
		p.all[key] = e
	}
	f(e)
	endpoint := p.endpoint(e)
	old := e.endpoint
	same := old == endpoint || old != nil && endpoint != nil && policy.Equal(old, endpoint)
	if !same || fromAPI && !e.known {
		e.endpoint, e.known = endpoint, true
		p.update(ref, endpoint)
	}
	if e.attached == nil && (e.pod == nil || e.pod.Spec.NodeName != p.cfg.Node) {
		delete(p.all, key)
	}
}

// mirrorAnnotation is an annotation of mirror pods, by which kubelet shows the static pods of its
// node in the API. Its value is the UID of the static pod.
const mirrorAnnotation = "kubernetes.io/config.mirror"

// runtimeUID returns the UID that a pod has in the container runtime, and therefore in CNI_ARGS.
func runtimeUID(pod *corev1.Pod) types.UID {
	return cmp.Or(types.UID(pod.Annotations[mirrorAnnotation]), pod.UID)
}

// endpoint returns the endpoint of an entry, or nil.
func (p *Pods) endpoint(e *entry) *policy.WorkloadEndpoint {
	if e.pod == nil {
		return nil
	}
	c := p.cfg.Converter
	if e.pod.Spec.NodeName == p.cfg.Node {
		switch {
		case p.detached[runtimeUID(e.pod)]:
			return nil
		case e.attached == nil:
		case e.uid != "" && e.pod.UID != "" && e.uid != runtimeUID(e.pod):
			return nil // another pod has the link of that name, and possibly the addresses
		default:
			c.Attachment = func(*corev1.Pod) convert.Attachment { return *e.attached }
		}
	}
	endpoint, problems := c.Pod(e.pod)
	if len(problems) > 0 || e.reported {
		p.cfg.Report(Ref{Namespace: e.pod.Namespace, Name: e.pod.Name, UID: e.pod.UID}, problems)
	}
	e.reported = len(problems) > 0
	local := e.pod.Spec.NodeName == p.cfg.Node
	if local && e.attached == nil && endpoint != nil && slices.ContainsFunc(endpoint.Addresses, p.hasAttachedLocked) {
		return nil // the status is from before its link was removed, which may be unknown after a restart
	}
	return endpoint
}
