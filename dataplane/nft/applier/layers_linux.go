// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"runtime"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/internal/rcu"
	"github.com/wayleave/wayleave/dataplane/nft/internal/readback"
)

// tools has what guards, executor and replacer need to change the table: settings, counters, and
// the means to write, to send and to wait.
type tools struct {
	cfg    *Config
	stats  *Stats
	writer *writer
	tx     *transactor
	grace  *graceWaiter
}

// assemble makes the structs of an Applier. Each has one task, and uses none of the structs above
// it in this list:
//
//	Applier        the calls of its user
//	reconciler     makes the kernel's table the desired one after a failure or a foreign change
//	repairer       writes the difference; isolator finds the objects that the kernel refuses
//	updater        carries out operations under guards; replacer makes a new table
//	executor       carries out operations in one transaction, or in parts: by shadows, or while chains drop
//	*Guards        drop packets that could see two states; backlog deletes after a grace period
//	epochs         commits what packets see; tableReader reads the table back
//	owner          owns the table; graceWaiter waits until no packet is under way
//	transactor     sends a transaction, for the generation of tracker
//	writer         writes operations into a transaction; handles identifies rules
//	desiredState   the desired state, and whether the kernel has it
//
// query is nil if the table will never have an owner. ownsGuard is false if the kernel does not
// support owners of tables.
func assemble(cfg *Config, conn, query *nfnl.Conn, ownsGuard bool, track *tracker) *Applier {
	stats, names, desired := &Stats{}, &nameGenerator{}, newDesiredState(cfg)
	reader := readback.New(conn, cfg.Family, cfg.Name)
	w := newWriter(cfg, desired, reader)
	tx := &transactor{
		conn: conn, tracker: track, writer: w, stats: stats,
		beforeWrite: cfg.BeforeWrite, limit: cfg.MaxBatch, now: time.Now,
	}
	grace := &graceWaiter{synchronize: rcu.Synchronize, oneProcessor: runtime.NumCPU() == 1, stats: stats}
	own := &owner{
		cfg: cfg, conn: conn, tracker: track, reader: reader, writer: w, tx: tx, stats: stats,
		owns: query != nil, query: query,
	}
	table := &tableReader{
		desired: desired, conn: conn, tracker: track, reader: reader, writer: w, owner: own, stats: stats,
	}
	epoch := &epochs{epoch: cfg.Epoch, desired: desired, writer: w, tx: tx, grace: grace, overlap: missesOverlaps()}
	later := &backlog{tx: tx, grace: grace}
	t := tools{cfg: cfg, stats: stats, writer: w, tx: tx, grace: grace}
	hooks := &hookGuards{tools: t, conn: conn, owned: ownsGuard, cleaned: ownsGuard}
	stages := &stageGuards{tools: t, names: names, reaches: map[string]stageReach{}}
	translations := &translationGuards{tools: t, reader: reader, names: names}
	exec := &executor{tools: t, epochs: epoch, backlog: later, names: names}
	replace := &replacer{tools: t, owner: own, hooks: hooks, translations: translations, executor: exec}
	update := &updater{
		writer: w, tx: tx, epochs: epoch, backlog: later, hooks: hooks, stages: stages,
		translations: translations, executor: exec, replacer: replace,
	}
	isolate := &isolator{cfg: cfg, desired: desired, updater: update}
	repair := &repairer{
		cfg: cfg, desired: desired, owner: own, updater: update, replacer: replace, isolator: isolate,
	}
	return &Applier{
		cfg: cfg, desired: desired, tracker: track, reader: reader, owner: own, epochs: epoch, backlog: later,
		updater: update, stats: stats,
		reconciler: &reconciler{
			cfg: cfg, desired: desired, tx: tx, owner: own, reader: table, hooks: hooks, stages: stages,
			backlog: later, repairer: repair, stats: stats,
		},
	}
}
