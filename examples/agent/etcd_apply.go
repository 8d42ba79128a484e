// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
)

// progressInterval is the time between two queries of the progress of the nodes.
const progressInterval = 50 * time.Millisecond

func applyCommand() cli.Command {
	return cli.Command{
		Name: "apply", Summary: "write manifests to the etcd that nodes share",
		About: `Writes the objects of the manifests to the etcd of --etcd. It deletes the objects that an
earlier "agent apply" with the same --owner wrote and that the manifests no longer have. If an object is
invalid, the command writes nothing.

Manifests may have settings (kind AgentConfig) for all nodes or for one node. Settings stay in etcd until
others replace them.

Nodes do not use the objects of a cluster until the cluster is marked as complete. To mark it, set --init when
all objects are written. With --wait, the command waits until all objects are in the kernel of each node. It
does not wait until settings take effect.`,
		Examples: []string{
			"apply --etcd http://127.0.0.1:2379 -f manifests --init",
			"apply --etcd http://127.0.0.1:2379 -f manifests --wait 30s",
		},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			declared := settings.Defaults()
			settings.DeclareEtcd(flags, &declared)
			config := configFlag(flags)
			var o applyOptions
			flags.Func("f", "`FILE` or folder with manifests; may be given again", func(path string) error {
				o.paths = append(o.paths, path)
				return nil
			})
			flags.StringVar(&o.owner, "owner", "agent-apply",
				"`NAME` of this set of manifests: objects that were written under the NAME and are not in the "+
					"manifests are deleted")
			flags.BoolVar(&o.trust, "trust-annotations", false,
				"let pods name their interface and MAC address by annotations")
			flags.BoolVar(&o.adopt, "adopt", false, "take over objects of other owners")
			flags.BoolVar(&o.empty, "allow-empty", false,
				"if the manifests are empty, delete all objects that were written, instead of failing")
			flags.BoolVar(&o.init, "init", false, "mark the cluster as complete, so that nodes use its objects")
			flags.DurationVar(&o.wait, "wait", 0,
				"wait at most `TIME` until all nodes have programmed the objects; 0: do not wait")
			return func(ctx context.Context, c cli.Console, _ []string) error {
				below, above := layers(flags, *config)
				effective, err := settings.Resolve(append(below, above...)...)
				if err != nil {
					return err
				}
				return apply(ctx, c, effective.Settings, o)
			}
		},
	}
}

type applyOptions struct {
	paths                     []string
	owner                     string
	trust, adopt, empty, init bool
	wait                      time.Duration
}

// apply writes manifests to etcd.
func apply(ctx context.Context, c cli.Console, s settings.Settings, o applyOptions) error {
	if len(o.paths) == 0 {
		return cli.Usagef("apply: -f is required")
	}
	stream, err := readStream(o.paths)
	if err != nil {
		return err
	}
	client, err := etcdClient(s)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // all requests have been answered by then
	err = stream.apply(ctx, c, client, o)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w: start etcd, or give its address with --etcd", s.Etcd, err)
	}
	return err
}

// apply writes the objects and settings of the stream.
func (s stream) apply(ctx context.Context, c cli.Console, client *etcd.Client, o applyOptions) error {
	configs, err := s.settings()
	if err != nil {
		return err
	}
	store, err := etcd.NewStore(etcd.StoreConfig{Client: client})
	if err != nil {
		return err
	}
	var result etcd.Result
	if !(len(configs) > 0 && s.onlySettings()) { // settings do not change objects
		progress := cli.NewProgress(c, "writing to etcd")
		result, err = s.write(ctx, store, o)
		progress.End()
		if err != nil {
			return err
		}
	}
	for _, node := range slices.Sorted(maps.Keys(configs)) {
		if err := store.PutSettings(ctx, node, configs[node]); err != nil {
			return err
		}
	}
	if result.Revision > 0 {
		c.Printf("%d objects are in the store at revision %s, %d deleted, %d settings written\n", result.Objects,
			result.Revision, len(result.Pruned), len(configs))
	} else {
		c.Printf("%d settings written\n", len(configs))
	}
	for _, key := range result.Pruned {
		c.Printf("  deleted %s\n", key)
	}
	if o.init {
		if err := store.Init(ctx); err != nil {
			return err
		}
	} else if err := initialised(ctx, store); err != nil {
		if o.wait > 0 {
			return err // waitApplied would never return
		}
		c.Errorf("warning: %v\n", err)
	}
	if o.wait > 0 {
		// The revision covers --init, and objects that were already in the store.
		revision, err := store.Barrier(ctx)
		if err != nil {
			return err
		}
		return waitApplied(ctx, c, store, revision, o.wait)
	}
	return nil
}

// initialised returns an error if the store has not been initialised, because then no node reads
// it. It ignores other errors: later requests report them.
func initialised(ctx context.Context, store *etcd.Store) error {
	if _, err := store.Settings(ctx, "any"); !errors.Is(err, etcd.ErrNotInitialised) {
		return nil
	}
	return fmt.Errorf("%w: the objects are written, but no node reads them yet. Once all objects of the "+
		"cluster are in the store, run 'agent apply' again with --init", etcd.ErrNotInitialised)
}

// waitApplied waits until a revision is applied on every node.
func waitApplied(
	ctx context.Context, c cli.Console, store *etcd.Store, revision etcd.Revision, atMost time.Duration,
) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	last, err := follow(ctx,
		func() (etcd.Progress, error) { return store.AppliedAt(ctx, revision) },
		func(r etcd.Progress) { c.Printf("applied on %s\n", r) })
	if err != nil {
		for _, n := range last.Nodes {
			if n.State != etcd.NodeApplied {
				c.Printf("  %s is %s\n", n.Node, n.State)
				for _, key := range slices.SortedFunc(maps.Keys(n.Faults), policy.Key.Compare) {
					c.Printf("    %s: %s\n", key, n.Faults[key])
				}
			}
		}
		return fmt.Errorf("apply: not applied on every node within %s: %w", atMost, err)
	}
	return nil
}

// follow queries the progress of the nodes until all have applied the revision, and reports each
// change of the number.
func follow(
	ctx context.Context, query func() (etcd.Progress, error), report func(etcd.Progress),
) (last etcd.Progress, err error) {
	printed := ""
	for {
		now, err := query()
		if err != nil {
			return last, err
		}
		last = now
		if printed != now.String() {
			printed = now.String()
			report(now)
		}
		if now.Complete() {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return last, ctx.Err()
		case <-time.After(progressInterval):
		}
	}
}

// stream has the content of manifest files, by path.
type stream map[string][]byte

// readStream reads files, and the manifests in folders.
func readStream(paths []string) (stream, error) {
	s := stream{}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("apply: -f: %w: give a file or a folder of manifests", err)
		}
		if info.IsDir() {
			files, err := readFolder(path)
			if err != nil {
				return nil, err
			}
			for name, text := range files {
				s[filepath.Join(path, name)] = []byte(text)
			}
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		s[path] = data
	}
	return s, nil
}

// decode returns a function that decodes the whole stream. It ignores its arguments.
func (s stream) decode(trust bool) func(string, []byte) ([]policy.Resource, []error) {
	reader := manifest.Reader{Converter: convert.Converter{TrustAnnotations: trust}}
	return func(string, []byte) (resources []policy.Resource, problems []error) {
		for _, file := range slices.Sorted(maps.Keys(s)) {
			_, rest := settings.Extract(file, s[file])
			found, wrong := reader.Decode(file, rest)
			resources, problems = append(resources, found...), append(problems, wrong...)
		}
		return resources, problems
	}
}

// write writes the objects of the stream to the store.
func (s stream) write(ctx context.Context, store *etcd.Store, o applyOptions) (etcd.Result, error) {
	writer, err := etcd.NewWriter(etcd.WriterConfig{
		Store: store, Owner: o.owner, Adopt: o.adopt, AllowEmpty: o.empty,
		Decode: s.decode(o.trust), Ignore: func(err error) bool { return errors.Is(err, convert.ErrIgnored) },
	})
	if err != nil {
		return etcd.Result{}, err
	}
	result, err := writer.Write(ctx, strings.Join(slices.Sorted(maps.Keys(s)), ", "), nil)
	if errors.Is(err, etcd.ErrEmptyStream) {
		return result, fmt.Errorf("%s: no manifest has an object: nothing was written. To delete all that --owner %s "+
			"wrote, give --allow-empty: %w",
			strings.Join(o.paths, ", "), o.owner, err)
	}
	if errors.Is(err, etcd.ErrOwned) {
		return result, fmt.Errorf("%w: leave it to that stream, or take it over with --adopt", err)
	}
	return result, err
}

// onlySettings reports whether the stream has only settings.
func (s stream) onlySettings() bool {
	for file, data := range s {
		if _, rest := settings.Extract(file, data); len(strings.Trim(string(rest), "- \t\r\n")) > 0 {
			return false
		}
	}
	return true
}

// settings returns the settings in the stream by the name of the node. The settings for all nodes
// have an empty name.
//
// Errors: problems of the settings that an agent would report.
func (s stream) settings() (map[string]json.RawMessage, error) {
	configs := map[string]json.RawMessage{}
	for _, file := range slices.Sorted(maps.Keys(s)) {
		found, _ := settings.Extract(file, s[file])
		for _, name := range slices.Sorted(maps.Keys(found)) {
			required := settings.Layer{Values: map[string]string{"node": "any"}}
			if _, err := settings.Resolve(required, found[name]); err != nil {
				return nil, err
			}
			node := strings.TrimPrefix(strings.TrimPrefix(name, settings.Global), settings.OfNode(""))
			if configs[node] != nil {
				return nil, fmt.Errorf("%s: %s %s is duplicated: keep one of them", file, settings.Kind, name)
			}
			data, err := json.Marshal(found[name].Values)
			if err != nil {
				return nil, err
			}
			configs[node] = data
		}
	}
	return configs, nil
}
