// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/pods"
	"github.com/wayleave/wayleave/policy"
)

var _ datastore.Source = (*Source)(nil)

// Source reads the objects of an API server, converts them to resources, and sends these and their
// changes to a receiver.
type Source struct {
	cfg   Config
	pods  *pods.Pods // nil without Config.Node
	queue *queue
	ran   atomic.Bool
	seed  maphash.Seed
	kinds []*objects
	// clientOf returns the client of a kind.
	clientOf  func(kind) client
	discovery *discoveryCache
	cluster   *cluster
	// servedInterval is the constant servedInterval, except in tests.
	servedInterval time.Duration

	mu sync.Mutex
	// unsynced counts the kinds without a complete list.
	unsynced int
	blocks   map[policy.Key][]claim
	// attached has the pods that are attached.
	attached map[policy.Key]bool
	// faulty has the objects with problems. The keys have no UID.
	faulty map[convert.Object]reported
}

// reported has the UID and the problems of an object that were last reported.
type reported struct {
	uid  types.UID
	text string
}

// New returns a Source that does not run yet. The error joins all problems of the configuration.
func New(cfg Config) (*Source, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Source{
		cfg: cfg.withDefaults(), queue: newQueue(), seed: maphash.MakeSeed(), blocks: map[policy.Key][]claim{},
		faulty:         map[convert.Object]reported{},
		discovery:      &discoveryCache{discovery: cfg.Client.Discovery(), maxAge: maxAnswerAge},
		attached:       map[policy.Key]bool{},
		servedInterval: servedInterval,
		cluster:        &cluster{client: cfg.Client},
		clientOf:       func(k kind) client { return k.client(cfg.Client, cfg.Dynamic) },
	}
	for _, k := range kinds() {
		o := &objects{source: s, kind: k, records: map[types.NamespacedName]record{}}
		if k.object == clusterNetworkPolicy {
			o.converted = map[types.NamespacedName]objectVersion{}
		}
		o.status = KindStatus{Kind: k.String(), State: StateWaiting}
		if slices.Contains(s.cfg.Omit, k.String()) {
			o.status.State = StateOmitted
		} else {
			s.unsynced++
		}
		s.kinds = append(s.kinds, o)
	}
	if s.cfg.Node == "" {
		return s, nil
	}
	var err error
	s.pods, err = pods.New(pods.Config{
		Node: s.cfg.Node, Converter: s.cfg.Converter, Update: s.kind("Pod").setEndpoint,
		Report: func(ref pods.Ref, problems []error) { s.reportPod(ref, problems) },
	})
	return s, err
}

// kind returns the objects of a kind, as in "Pod".
func (s *Source) kind(object string) *objects {
	return s.kinds[slices.IndexFunc(s.kinds, func(o *objects) bool { return o.kind.object == object })]
}

// Run sends the resources of all objects to the receiver, calls InSync once, and then sends every
// change. Run can be called once. While the server does not answer, the receiver keeps the last
// resources.
//
// Run returns the error of the context or of the receiver, and an error if it was called before.
func (s *Source) Run(ctx context.Context, r datastore.Receiver) error {
	if s.ran.Swap(true) {
		return errors.New("kubernetes: Source.Run was called before")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cancel(nil)
	if err := s.start(ctx, &readers); err != nil {
		return fmt.Errorf("kubernetes: %w", err)
	}
	s.queue.setReceiver(r)
	defer s.queue.setReceiver(nil)
	return s.queue.deliver(ctx, r)
}

// start starts the readers of all kinds, and warns of kinds that are not read.
func (s *Source) start(ctx context.Context, readers *sync.WaitGroup) error {
	for _, o := range s.kinds {
		switch {
		case o.status.State == StateOmitted:
		case o.isShared():
			if err := s.share(ctx, o, readers); err != nil {
				return err
			}
		default:
			r := &reader{objects: o, client: s.clientOf(o.kind), discovery: s.discovery, logger: s.cfg.Logger}
			readers.Go(func() { r.run(ctx) })
		}
	}
	if s.cfg.Informers != nil {
		s.cfg.Informers.Start(ctx.Done())
	}
	readers.Go(func() { s.warnOfFormerKinds(ctx) })
	return nil
}

// Attach records the link (interface and addresses) of a pod of this node. Call it in CNI ADD. Then
// call Barrier, and WaitEndpoint of dataplane.Driver, to wait until the pod's policy is in the
// kernel. Before Run, attach all pods that already have a link. A second Attach of a pod replaces
// the first.
//
// Attach changes nothing and returns an error in these cases:
//
//   - Config.Node is empty.
//   - The attachment has no interface, or has an invalid value.
//   - Another attached pod has the same interface.
func (s *Source) Attach(ref pods.Ref, a convert.Attachment) error {
	if s.pods == nil {
		return fmt.Errorf("kubernetes: attach %s: Config.Node is empty", ref)
	}
	if err := s.pods.Attach(ref, a); err != nil {
		return err
	}
	s.setAttached(ref, true)
	return nil
}

// Detach records that the link of a pod is removed. Call it in CNI DEL. If gone is true, no pod of
// that name is attached any more. Then call Barrier, and WaitRemoved of dataplane.Driver, to wait
// until the pod's rules and routes are removed from the kernel. If gone is false, a pod with the
// same name and another UID is attached, and Detach has changed nothing.
func (s *Source) Detach(ref pods.Ref) (gone bool) {
	if s.pods == nil {
		return true
	}
	gone = s.pods.Detach(ref)
	s.setAttached(ref, !gone)
	return gone
}

// setAttached records whether a pod is attached. If the pod's endpoint is buffered until a list is
// complete, setAttached pushes it at once.
func (s *Source) setAttached(ref pods.Ref, attached bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attached[ref.Key()] = true; !attached {
		delete(s.attached, ref.Key())
	}
	s.kind("Pod").flushLocked(ref.Key())
}

// Barrier waits until the receiver is in sync, and has received all changes that the Source knew
// before the call. They include the changes by earlier calls of Attach and Detach. If the receiver
// has a method Barrier, as a calcgraph.Runner has, Barrier then calls this method and waits for it.
// Barrier returns the error of the context or of the receiver.
func (s *Source) Barrier(ctx context.Context) error { return s.queue.barrier(ctx) }

// Status returns the state of the Source.
func (s *Source) Status() Status {
	s.queue.mu.Lock()
	inSync := s.queue.inSync
	s.queue.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	status := Status{InSync: inSync, Faulty: len(s.faulty)}
	for _, o := range s.kinds {
		k := o.status
		k.Objects = max(len(o.records), o.shared)
		status.Kinds = append(status.Kinds, k)
	}
	return status
}

// setState sets the state of a kind, after a complete list or when the server does not have the
// kind.
func (s *Source) setState(o *objects, state State) {
	s.mu.Lock()
	first := o.status.State == StateWaiting
	if o.status.State = state; first {
		s.unsynced--
	}
	complete := first && s.unsynced == 0
	s.mu.Unlock()
	if complete {
		s.queue.setComplete()
	}
}

// setErr records why a kind cannot be read now. A nil err means that the kind can be read.
func (s *Source) setErr(o *objects, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reason(err) == reason(o.status.Err) {
		return
	}
	o.status.Err, o.status.Since = err, time.Time{}
	if err != nil {
		o.status.Since = time.Now()
		s.cfg.Logger.Warn("kind cannot be read", "kind", o.kind.String(), "err", err)
		return
	}
	s.cfg.Logger.Info("kind can be read again", "kind", o.kind.String())
}

// reason returns the text of an error without the URL of the request, which differs at each
// attempt.
func reason(err error) string {
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return fmt.Sprint(err)
}

// setPod adds or replaces a pod, and pushes its endpoint.
func (s *Source) setPod(pod *corev1.Pod) {
	if s.pods != nil {
		s.pods.Set(pod)
		return
	}
	ref := pods.Ref{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	endpoint, problems := s.cfg.Converter.Pod(pod)
	s.reportPod(ref, problems)
	u := policy.Update{Key: ref.Key()}
	if endpoint != nil {
		u.Resource = endpoint
	}
	s.kind("Pod").setEndpoint(u)
}

func (s *Source) deletePod(id types.NamespacedName) {
	if s.pods != nil {
		s.pods.Delete(id.Namespace, id.Name)
		return
	}
	s.kind("Pod").setEndpoint(policy.Update{Key: pods.Ref{Namespace: id.Namespace, Name: id.Name}.Key()})
}

func (s *Source) reportPod(ref pods.Ref, problems []error) {
	o := s.kind("Pod")
	s.mu.Lock()
	defer s.mu.Unlock()
	id := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	s.reportLocked(o.identity(id, ref.UID), 0, problems, false)
}

// reportLocked reports the problems of an object if they are new, or if changed is set. Errors that
// wrap convert.ErrIgnored do not count as problems.
func (s *Source) reportLocked(object convert.Object, generation int64, problems []error, changed bool) {
	problems = slices.DeleteFunc(problems, func(err error) bool { return errors.Is(err, convert.ErrIgnored) })
	key := object
	key.UID = ""
	old, faulty := s.faulty[key]
	now := reported{object.UID, fmt.Sprint(errors.Join(problems...))}
	switch {
	case !changed && (faulty && now == old || !faulty && len(problems) == 0):
		return
	case len(problems) > 0:
		s.faulty[key] = now
	default:
		delete(s.faulty, key)
	}
	if object.Kind == clusterNetworkPolicy {
		s.cfg.Hooks.Converted(object, generation, problems)
	} else {
		s.cfg.Hooks.Problems(object, problems)
	}
}

// nameOf returns the name of an object.
func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Faulty returns the objects that have problems, each with its problems as text.
func (s *Source) Faulty() map[convert.Object]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[convert.Object]string, len(s.faulty))
	for object, f := range s.faulty {
		object.UID = f.uid
		all[object] = f.text
	}
	return all
}
