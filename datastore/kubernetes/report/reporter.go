// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"iter"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
)

// ErrRunning is returned by a second call of Run during the first.
var ErrRunning = errors.New("report: the Reporter is already running")

// Stats are the counters and the present state of a Reporter.
type Stats struct {
	// Leading is set while this node writes for all nodes.
	Leading bool
	// Objects counts the objects that are rejected, and the objects that are accepted only in part.
	Objects int
	// Events counts the Events that were created or whose count was increased. Suppressed counts
	// the Events that were not written, because there were too many of one object.
	Events, Suppressed uint64
	// Conditions counts the writes of conditions of policies. Node counts the writes of the Node.
	// Reports counts the writes of the node's report.
	Conditions, Node, Reports uint64
	// Failed counts the requests that failed and are sent again. Dropped counts the Events and
	// conditions that were discarded, because the server does not accept them or the object is
	// gone.
	Failed, Dropped uint64
	// Errors has the error of each part whose last request failed: PartEvents, PartConditions and
	// so on.
	Errors map[string]error
}

// The parts of a Reporter, as Stats.Errors has them.
const (
	PartEvents     = "events"
	PartConditions = "conditions"
	PartNode       = "node"
	PartReport     = "report"
	PartLease      = "lease"
	PartBarrier    = "barrier"
)

// Reporter writes the findings and the progress of a node agent to the Kubernetes API.
type Reporter struct {
	cfg        Config
	correlator *record.EventCorrelator

	mu        sync.Mutex
	queue     workqueue.TypedRateLimitingInterface[task] // nil while Run does not run
	backlogs  map[kind]*backlog
	objects   map[convert.Object]*object // by identity, without a UID
	endpoints map[policy.Key]string      // why it cannot be programmed; empty if it can
	applied   map[string]string          // resourceVersion by kind
	ready     bool
	term      context.Context // of the leadership; nil before the first
	stats     Stats

	// These belong to the goroutine of Run.
	unsent      map[task]unsent
	pausedUntil time.Time
	node        nodeWriter
	report      reportWriter
}

// New returns a Reporter, which sends no request before Run. The error joins all problems of the
// configuration.
func New(cfg Config) (*Reporter, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Reporter{
		cfg: cfg, correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{}),
		backlogs: map[kind]*backlog{
			eventTask: {limit: rate.NewLimiter(1, 20)},
			// Its own: the leader may have very many objects at fault.
			podTask:       {limit: rate.NewLimiter(1, 20)},
			conditionTask: {limit: rate.NewLimiter(10, 100)},
		},
		objects: map[convert.Object]*object{}, endpoints: map[policy.Key]string{},
		unsent: map[task]unsent{}, stats: Stats{Errors: map[string]error{}},
	}, nil
}

// Problems records all problems of an object, each a *convert.Error. It has the signature of
// kubernetes.Hooks.Problems. Call it whenever the problems of the object change. If they are solved
// or the object is deleted, call it with an empty list. The Reporter does not report problems that
// wrap convert.ErrIgnored.
func (r *Reporter) Problems(found convert.Object, problems []error) {
	r.change(found, func(o *object) {
		o.converted, o.rejected, o.doubt = converted(found.Kind, problems), "", ""
	})
}

// Converted records that a generation of a ClusterNetworkPolicy was converted. It also records the
// problems of the conversion. It has the signature of kubernetes.Hooks.Converted. For objects of
// this kind, call it instead of Problems, once for each generation, even if there are no problems.
// An object with generation 0 gets no condition.
func (r *Reporter) Converted(found convert.Object, generation int64, problems []error) {
	r.change(found, func(o *object) {
		if generation != o.generation {
			o.rejected, o.doubt = "", "" // of the previous generation
		}
		o.converted, o.generation = converted(found.Kind, problems), generation
	})
}

// Deleted records that an object was deleted. It has the signature of kubernetes.Hooks.Deleted. If
// a ClusterNetworkPolicy is deleted, you must call Deleted. If another object is deleted, you can
// instead call Problems with an empty list.
func (r *Reporter) Deleted(gone convert.Object) {
	r.change(gone, func(o *object) {
		*o = object{unprogrammed: o.unprogrammed, podEvent: o.podEvent}
	})
}

// Rejected records that a calcgraph.Graph rejects a resource. It has the signature of
// calcgraph.Hooks.Rejected. The Reporter keeps the record until one of these methods is called for
// the same object:
//
//   - Problems
//   - Converted, with another generation
//   - Deleted
//   - Rejected with a nil error. (A Graph never makes this call, but another caller may.)
func (r *Reporter) Rejected(key policy.Key, err error) {
	r.change(originOf(key), func(o *object) {
		if o.rejected = ""; err != nil {
			o.rejected = clip(err.Error(), maxNote)
		}
	})
}

// Doubt records which fields of a policy's rules are not understood. The policy is enforced, but
// these rules are closed: they allow nothing. Doubt has the signature of calcgraph.Hooks.Doubt. The
// Reporter keeps the record until one of these methods is called for the same object: Problems,
// Deleted, Converted (with another generation) or Doubt (with nil).
func (r *Reporter) Doubt(key policy.Key, doubt *policy.DoubtError) {
	r.change(originOf(key), func(o *object) {
		if o.doubt = ""; doubt != nil {
			o.doubt = doubtText(doubt)
		}
	})
}

// Endpoints records the status of the endpoints of this node. Its argument is the sequence that
// dataplane.Driver.EndpointChanges returns. Endpoints returns when the sequence ends; the recorded
// status stays. If a new Driver replaces the previous one, call Endpoints again. The new call first
// removes the status that the previous call recorded.
func (r *Reporter) Endpoints(changes iter.Seq[dataplane.EndpointChange]) {
	r.mu.Lock()
	before := maps.Clone(r.endpoints)
	r.mu.Unlock()
	for key := range before {
		r.endpoint(dataplane.EndpointChange{Key: key, Removed: true})
	}
	for change := range changes {
		r.endpoint(change)
	}
}

// endpoint records the status of an endpoint. A pending endpoint keeps its last status, because
// most updates of a failed endpoint do not repair it.
func (r *Reporter) endpoint(change dataplane.EndpointChange) {
	r.change(originOf(change.Key), func(o *object) {
		if change.Removed {
			delete(r.endpoints, change.Key)
			o.unprogrammed = ""
			return
		}
		switch change.Status.State {
		case dataplane.EndpointUp:
			o.unprogrammed = ""
		case dataplane.EndpointFailed:
			o.unprogrammed = "cannot be programmed"
			if err := change.Status.Err; err != nil {
				o.unprogrammed = clip(err.Error(), maxNote)
			}
		}
		r.endpoints[change.Key] = o.unprogrammed
	})
}

// Ready records that the first complete state is in the kernel, and the node is ready for pods.
func (r *Reporter) Ready() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ready {
		r.ready = true
		r.add(task{kind: nodeTask})
		r.add(task{kind: reportTask})
	}
}

// Stats returns the counters. The result belongs to the caller.
func (r *Reporter) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Leading, s.Errors = r.isLeader(), maps.Clone(s.Errors)
	for _, o := range r.objects {
		if o.finding().reason != "" {
			s.Objects++
		}
	}
	return s
}

// isLeader reports whether this node is the leader. The caller holds mu.
func (r *Reporter) isLeader() bool { return r.term != nil && r.term.Err() == nil }

// change changes the record of an object, and schedules its tasks.
func (r *Reporter) change(found convert.Object, apply func(*object)) {
	id := found
	id.UID = ""
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.objects[id]
	if o == nil {
		o = &object{}
	}
	apply(o)
	if found.UID != "" {
		o.uid = found.UID
	}
	if o.finding().reason == "" {
		o.event.written = notice{}
	}
	if o.unprogrammed == "" {
		o.podEvent.written = notice{}
	}
	if o.empty() {
		delete(r.objects, id)
	} else {
		r.objects[id] = o
	}
	r.schedule(id, o)
	r.add(task{kind: reportTask})
}

// schedule appends the due tasks of an object to their backlogs. The caller holds mu.
func (r *Reporter) schedule(id convert.Object, o *object) {
	for _, kind := range []kind{eventTask, conditionTask, podTask} {
		t := task{kind, id}
		if s, _, due := r.due(t, o); due && !s.queued && r.queue != nil {
			s.queued = true
			r.enqueue(t)
		}
	}
}

// due returns the last write of a task, its wanted content, and whether this node has to write it.
// The caller holds mu.
func (r *Reporter) due(t task, o *object) (s *lastWrite, wanted notice, due bool) {
	switch t.kind {
	case eventTask:
		s, wanted = &o.event, notice{uid: o.uid, finding: o.finding()}
		due = r.isLeader() && wanted.reason != "" && t.object.APIVersion != ""
	case podTask:
		s, wanted = &o.podEvent, notice{uid: o.uid, finding: finding{ReasonNotProgrammed, o.unprogrammed}}
		due = o.unprogrammed != "" && t.object.Kind == "Pod"
	default:
		s, wanted = &o.condition, notice{uid: o.uid, generation: o.generation, finding: o.finding()}
		due = r.isLeader() && o.generation != 0
	}
	written := s.written
	if written.uid == "" {
		written.uid = wanted.uid // only known now
	}
	return s, wanted, due && written != wanted
}

// add adds a task to the queue of Run, if that runs. The caller holds mu.
func (r *Reporter) add(t task) {
	if r.queue != nil {
		r.queue.Add(t)
	}
}
