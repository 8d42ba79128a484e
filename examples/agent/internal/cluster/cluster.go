// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/examples/agent/internal/metrics"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/policy"
)

// Name is the name of the source.
const Name = "etcd"

// Config configures a Cluster. All fields are required.
type Config struct {
	// Client is a client of the shared etcd.
	Client *etcd.Client
	// Node is the name of this node.
	Node string
	// Settings is called with the settings in etcd, once they have been read and whenever they
	// change.
	Settings func(Layers)
	// Rejected is called with the error of an object in etcd that cannot be decoded.
	Rejected func(error)
	// Logger logs events.
	Logger *slog.Logger
}

// Cluster is the connection of this node to the shared etcd. It is safe for concurrent use; see the
// package comment.
type Cluster struct {
	cfg          Config
	store        *etcd.Store
	source       *etcd.Source
	reporter     *etcd.Reporter
	settingsRead chan struct{} // closed once the settings have been read
	news         chan struct{} // holds a token after delivered has changed
	replica      replica

	reporting sync.Mutex // held while a report is made, so that reports are in order

	mu        sync.Mutex
	delivered etcd.Revision // the running source has sent everything up to it
	history   *etcd.History // the history to which delivered and applied belong
	applied   etcd.Revision
	problems  map[string]string // the last problem of each kind, to log it only once
}

var _ datastore.Source = objects{}

// New returns a Cluster. It sends no request before Run. Errors: the configuration is invalid.
func New(cfg Config) (*Cluster, error) {
	if cfg.Settings == nil || cfg.Rejected == nil || cfg.Logger == nil {
		return nil, errors.New("cluster: Config.Settings, Rejected and Logger: required")
	}
	c := &Cluster{
		cfg: cfg, settingsRead: make(chan struct{}), news: make(chan struct{}, 1),
		problems: map[string]string{},
	}
	var err, all error
	c.store, err = etcd.NewStore(etcd.StoreConfig{Client: cfg.Client})
	all = errors.Join(all, err)
	c.source, err = etcd.NewSource(etcd.SourceConfig{Client: cfg.Client, Hooks: etcd.SourceHooks{
		Rejected:  c.reject,
		Lost:      func(err error) { c.logProblem(objectsProblem, err) },
		Found:     func() { c.solved(objectsProblem) },
		Delivered: c.setDelivered,
	}})
	all = errors.Join(all, err)
	c.reporter, err = etcd.NewReporter(etcd.ReporterConfig{Client: cfg.Client, Node: cfg.Node, Lost: func(err error) {
		c.logProblem(reportsProblem, err)
	}})
	if all = errors.Join(all, err); all != nil {
		return nil, all
	}
	return c, nil
}

// Run writes reports to etcd and watches the settings, until ctx is done. It returns the error of
// ctx.
func (c *Cluster) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { c.watchSettings(ctx) })
	return c.reporter.Run(ctx)
}

// Source returns a source of the objects in etcd. The source's Run may be called again once it has
// returned.
func (c *Cluster) Source() datastore.Source { return objects{c} }

// objects is the source. It sends nothing before the settings have been read.
type objects struct{ cluster *Cluster }

// Run sends the objects in etcd to the receiver; see datastore.Source. If an earlier call has
// received objects, Run first sends those, because etcd may be unavailable now.
func (o objects) Run(ctx context.Context, r datastore.Receiver) error {
	defer o.cluster.setDelivered(0, nil) // the next receiver has nothing yet
	select {
	case <-o.cluster.settingsRead:
	case <-ctx.Done():
		return ctx.Err()
	}
	refresher, err := o.cluster.replica.begin(ctx, r)
	if err != nil {
		return err
	}
	return o.cluster.source.Run(ctx, refresher)
}

// State returns the state of the connection and of the objects. The command "agent status" prints
// it.
func (c *Cluster) State() api.Store {
	stats := c.source.Stats()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := api.Store{
		Connected: stats.Connected, Delivered: int64(c.delivered), Applied: int64(c.applied),
		Unreadable: slices.SortedFunc(maps.Keys(c.source.Unusable()), policy.Key.Compare),
	}
	switch {
	case stats.LastError != nil:
		s.Error = stats.LastError.Error()
	case !stats.Connected:
		s.Error = c.problems[settingsProblem]
	}
	return s
}

// Stats returns the metrics of the store.
func (c *Cluster) Stats() *metrics.Store {
	s := &metrics.Store{SourceStats: c.source.Stats(), Unusable: len(c.source.Unusable())}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Applied = c.applied
	return s
}

// setDelivered records the revision up to which the receiver has all changes. If the history has
// changed, the applied revision is unknown again.
func (c *Cluster) setDelivered(revision etcd.Revision, history *etcd.History) {
	c.mu.Lock()
	if history != c.history {
		c.applied = 0
	}
	c.delivered, c.history = revision, history
	c.mu.Unlock()
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// Kinds of problems.
const (
	objectsProblem  = "objects cannot be read from the store; the last known ones stay applied"
	settingsProblem = "settings cannot be read from the store; the last known ones stay in effect"
	reportsProblem  = "nothing can be reported to the store"
)

// logProblem logs a problem, and reports whether it is new. A repeated problem is logged at level
// debug.
func (c *Cluster) logProblem(what string, err error) (news bool) {
	c.mu.Lock()
	text := err.Error()
	news = c.problems[what] != text
	c.problems[what] = text
	c.mu.Unlock()
	level := slog.LevelDebug
	if news {
		level = slog.LevelWarn
	}
	c.cfg.Logger.Log(context.Background(), level, what, "err", text)
	return news
}

// hasProblem reports whether there is a problem of a kind.
func (c *Cluster) hasProblem(what string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.problems[what] != ""
}

// solved records that a problem is solved.
func (c *Cluster) solved(what string) {
	c.mu.Lock()
	was := c.problems[what]
	delete(c.problems, what)
	c.mu.Unlock()
	if was != "" {
		c.cfg.Logger.Info("the store can be read again")
	}
}

// reject reports an object in etcd that cannot be used. The node treats it as absent. If the object
// is a policy, the node does not enforce it.
func (c *Cluster) reject(err error) {
	c.cfg.Logger.Error("rejected, so absent", "source", Name, "err", err)
	c.cfg.Rejected(err)
}
