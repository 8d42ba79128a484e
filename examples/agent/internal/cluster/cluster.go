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

// Name of the source.
const Name = "etcd"

// Config of a Cluster. All fields are required.
type Config struct {
	// Client of the store.
	Client *etcd.Client
	// Node is the name of this node.
	Node string
	// Settings is told the settings in the store, when they have been read and whenever they are
	// others.
	Settings func(Layers)
	// Rejected is told of what is in the store and cannot be read.
	Rejected func(error)
	// Logger is told what happens.
	Logger *slog.Logger
}

// Cluster is this node's part in the store. It is safe for concurrent use; see the package.
type Cluster struct {
	cfg      Config
	store    *etcd.Store
	source   *etcd.Source
	reporter *etcd.Reporter
	settled  chan struct{} // closed once the settings have been read
	news     chan struct{} // holds a token after delivered has changed
	replica  replica

	reporting sync.Mutex // held while a report is made, so that an older one does not come after it

	mu        sync.Mutex
	delivered etcd.Revision // by the running source
	history   *etcd.History // of delivered and inForce
	inForce   etcd.Revision
	said      map[string]string // the last trouble of each kind, to be logged once
}

var _ datastore.Source = objects{}

// New returns this node's part in the store. It does not speak to it yet. Errors: of the
// configuration.
func New(cfg Config) (*Cluster, error) {
	if cfg.Settings == nil || cfg.Rejected == nil || cfg.Logger == nil {
		return nil, errors.New("cluster: Config: Settings, Rejected and Logger are required")
	}
	c := &Cluster{
		cfg: cfg, settled: make(chan struct{}), news: make(chan struct{}, 1),
		said: map[string]string{},
	}
	var err, all error
	c.store, err = etcd.NewStore(etcd.StoreConfig{Client: cfg.Client})
	all = errors.Join(all, err)
	c.source, err = etcd.NewSource(etcd.SourceConfig{Client: cfg.Client, Hooks: etcd.SourceHooks{
		Rejected:  c.reject,
		Lost:      func(err error) { c.trouble(objectsTrouble, err) },
		Found:     func() { c.fine(objectsTrouble) },
		Delivered: c.setDelivered,
	}})
	all = errors.Join(all, err)
	c.reporter, err = etcd.NewReporter(etcd.ReporterConfig{Client: cfg.Client, Node: cfg.Node, Lost: func(err error) {
		c.trouble(reportsTrouble, err)
	}})
	if all = errors.Join(all, err); all != nil {
		return nil, all
	}
	return c, nil
}

// Run reports, and watches the settings, until ctx is done. It returns the error of ctx.
func (c *Cluster) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { c.watchSettings(ctx) })
	return c.reporter.Run(ctx)
}

// Source returns the source of the store's objects. It may be run again when it has ended, for
// another pipeline.
func (c *Cluster) Source() datastore.Source { return objects{c} }

// objects is the source: it tells nothing before the settings have been read.
type objects struct{ cluster *Cluster }

// Run tells the receiver the objects of the store; see datastore.Source. Of another Run those that
// were known at the end of the one before are told at once, as the store may be away.
func (o objects) Run(ctx context.Context, r datastore.Receiver) error {
	defer o.cluster.setDelivered(0, nil) // the next receiver has nothing yet
	select {
	case <-o.cluster.settled:
	case <-ctx.Done():
		return ctx.Err()
	}
	refresher, err := o.cluster.replica.begin(ctx, r)
	if err != nil {
		return err
	}
	return o.cluster.source.Run(ctx, refresher)
}

// State returns how the node and the store get on.
func (c *Cluster) State() api.Store {
	stats := c.source.Stats()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := api.Store{
		Connected: stats.Connected, Delivered: int64(c.delivered), InForce: int64(c.inForce),
		Unreadable: slices.SortedFunc(maps.Keys(c.source.Unusable()), policy.Key.Compare),
	}
	switch {
	case stats.LastError != nil:
		s.Error = stats.LastError.Error()
	case !stats.Connected:
		s.Error = c.said[settingsTrouble]
	}
	return s
}

// Stats returns what is counted of the store.
func (c *Cluster) Stats() *metrics.Store {
	s := &metrics.Store{SourceStats: c.source.Stats(), Unusable: len(c.source.Unusable())}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.InForce = c.inForce
	return s
}

// setDelivered records the revision up to which the receiver has everything. If the history is
// another one, the revision in force is unknown again.
func (c *Cluster) setDelivered(revision etcd.Revision, history *etcd.History) {
	c.mu.Lock()
	if history != c.history {
		c.inForce = 0
	}
	c.delivered, c.history = revision, history
	c.mu.Unlock()
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// What there may be trouble with.
const (
	objectsTrouble  = "objects cannot be read from the store; the last known ones stay in force"
	settingsTrouble = "settings cannot be read from the store; the last known ones stay in force"
	reportsTrouble  = "nothing can be reported to the store"
)

// trouble logs what is wrong, once, although it is tried again and again, and returns whether it is
// news.
func (c *Cluster) trouble(what string, err error) (news bool) {
	c.mu.Lock()
	text := err.Error()
	news = c.said[what] != text
	c.said[what] = text
	c.mu.Unlock()
	level := slog.LevelDebug
	if news {
		level = slog.LevelWarn
	}
	c.cfg.Logger.Log(context.Background(), level, what, "err", text)
	return news
}

// troubled reports whether something is wrong already.
func (c *Cluster) troubled(what string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said[what] != ""
}

// fine forgets what was wrong.
func (c *Cluster) fine(what string) {
	c.mu.Lock()
	was := c.said[what]
	delete(c.said, what)
	c.mu.Unlock()
	if was != "" {
		c.cfg.Logger.Info("the store can be read again")
	}
}

// reject tells of an object that is in the store and absent here: the policy that it may be is in
// force nowhere on this node.
func (c *Cluster) reject(err error) {
	c.cfg.Logger.Error("rejected, so absent", "source", Name, "err", err)
	c.cfg.Rejected(err)
}
