// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Config configures Pods. Update is required.
type Config struct {
	// Converter converts the pods. Its Attachment must be nil.
	Converter convert.Converter
	// Update receives each change: an endpoint, or its key alone if there is none any more. It must not
	// call the Pods.
	Update func(policy.Update)
	// Report receives what is wrong with a pod, each time that the pod changes: *convert.Error. Nil discards.
	Report func([]error)
}

// Ref identifies a pod. A CNI plugin finds all three in CNI_ARGS: K8S_POD_NAMESPACE, K8S_POD_NAME and
// K8S_POD_UID.
type Ref struct {
	Namespace, Name string
	// UID distinguishes pods of the same name, such as those of a StatefulSet. Empty means whichever pod
	// has that name.
	UID types.UID
}

// String returns namespace/name.
func (r Ref) String() string { return r.Namespace + "/" + r.Name }

// Pods makes endpoints of pods. Make it with New.
type Pods struct {
	cfg Config
	mu  sync.Mutex
	all map[name]*entry
}

type name struct{ namespace, name string }

// entry has what is known of the pods of one name.
type entry struct {
	pod *corev1.Pod // nil if the API has none
	// attached has the attachment of the pod with the id uid; nil if there is none.
	attached *convert.Attachment
	uid      types.UID
	// detached is set if the link of the pod with the id uid is gone.
	detached bool
	// endpoint is the last that Update received, or nil.
	endpoint *policy.WorkloadEndpoint
}

// New returns Pods without a pod. Errors: a Config without Update, or whose Converter has an Attachment.
func New(cfg Config) (*Pods, error) {
	if cfg.Update == nil {
		return nil, errors.New("pods: config: Update is missing")
	}
	if cfg.Converter.Attachment != nil {
		return nil, errors.New("pods: config: Converter.Attachment must be nil")
	}
	if cfg.Report == nil {
		cfg.Report = func([]error) {}
	}
	return &Pods{cfg: cfg, all: map[name]*entry{}}, nil
}

// Set adds or replaces a pod of any node, as the API has it. The pod must not change any more.
func (p *Pods) Set(pod *corev1.Pod) {
	p.change(Ref{Namespace: pod.Namespace, Name: pod.Name}, func(e *entry) { e.pod = pod })
}

// Delete removes a pod that the API has no longer. The pod's attachment stays until Detach.
func (p *Pods) Delete(namespace, name string) {
	p.change(Ref{Namespace: namespace, Name: name}, func(e *entry) { e.pod = nil })
}

// Attach records the link of a pod. The endpoint follows at once if the API has the pod, and otherwise with
// Set. A second Attach replaces the first.
//
// Errors: an attachment without an interface, or with a value that no endpoint can have; then nothing changes.
func (p *Pods) Attach(ref Ref, a convert.Attachment) error {
	probe := &policy.WorkloadEndpoint{
		Namespace: ref.Namespace, Name: ref.Name, Node: "node", Interface: a.Interface, MAC: a.MAC,
		Addresses: a.Addresses,
	}
	if err := probe.Validate(); err != nil {
		return fmt.Errorf("pods: attach %s: %w", ref, err)
	}
	p.change(ref, func(e *entry) { e.attached, e.uid, e.detached = &a, ref.UID, false })
	return nil
}

// Detach records that the link of a pod is gone. That it was never attached is no error. A Ref with the UID of
// another pod than the one attached changes nothing: CNI DEL may come late, and more than once.
func (p *Pods) Detach(ref Ref) {
	p.change(ref, func(e *entry) {
		if e.attached != nil && ref.UID != "" && e.uid != "" && ref.UID != e.uid {
			return
		}
		uid := cmp.Or(ref.UID, e.uid)
		if uid == "" && e.pod != nil {
			uid = e.pod.UID
		}
		e.attached, e.uid, e.detached = nil, uid, true
	})
}

// change changes what is known of the pods of one name, and reports the endpoint if that changes.
func (p *Pods) change(ref Ref, f func(*entry)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := name{ref.Namespace, ref.Name}
	e := p.all[key]
	if e == nil {
		e = &entry{}
		p.all[key] = e
	}
	f(e)
	endpoint := p.endpoint(e)
	old := e.endpoint
	same := old == endpoint || old != nil && endpoint != nil && policy.Equal(old, endpoint)
	if !same {
		if e.endpoint = endpoint; endpoint == nil {
			p.cfg.Update(policy.Update{Key: old.Key()})
		} else {
			p.cfg.Update(policy.Update{Key: endpoint.Key(), Resource: endpoint})
		}
	}
	if e.pod == nil && e.attached == nil {
		delete(p.all, key)
	}
}

// endpoint returns the endpoint of an entry, or nil.
func (p *Pods) endpoint(e *entry) *policy.WorkloadEndpoint {
	if e.pod == nil {
		return nil
	}
	same := e.uid == "" || e.pod.UID == "" || e.uid == e.pod.UID
	if e.detached && same {
		return nil
	}
	c := p.cfg.Converter
	if e.attached != nil && same {
		c.Attachment = func(*corev1.Pod) convert.Attachment { return *e.attached }
	}
	endpoint, problems := c.Pod(e.pod)
	if len(problems) > 0 {
		p.cfg.Report(problems)
	}
	return endpoint
}
