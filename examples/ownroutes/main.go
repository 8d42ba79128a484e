// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/wayleave/wayleave/dataplane/routes"
)

const usage = `usage: ownroutes [flags] PREFIX=GATEWAY...

It keeps routes in a separate table, and rules that look it up, until it is interrupted.

`

// removeWithin limits how long the removal of the routes may take at the end.
const removeWithin = 10 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], 0, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp): // the help has been printed
	case err != nil:
		fmt.Fprintln(os.Stderr, "ownroutes:", err)
		os.Exit(1)
	}
}

// run runs the command line until the context is done. namespace is the file descriptor of the
// network namespace; 0 means the program's own.
func run(ctx context.Context, args []string, namespace int, out io.Writer) error {
	flags := flag.NewFlagSet("ownroutes", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		_, _ = fmt.Fprint(out, usage)
		flags.PrintDefaults()
	}
	table := flags.Uint("table", 100, "`number` of the table; its routes with our protocol number are ours")
	priority := flags.Uint("priority", 100, "`number` of the rules; the main table has 32766")
	protocol := flags.Uint("protocol", 230, "`number` by which our routes are known, 5 to 255")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *protocol > math.MaxUint8 || *table > math.MaxUint32 || *priority > math.MaxUint32 {
		return fmt.Errorf("protocol %d, table %d or priority %d is too large", *protocol, *table, *priority)
	}
	objects, err := parse(flags.Args(), uint32(*table), uint32(*priority))
	if err != nil {
		return err
	}
	keeper, err := routes.NewKeeper(routes.KeeperConfig{
		NetNS: namespace, Protocol: uint8(*protocol), Tables: []uint32{uint32(*table)},
	})
	if err != nil {
		return err
	}
	keeper.Set(objects...)
	err = keep(ctx, keeper, slog.New(slog.NewTextHandler(out, nil)))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeWithin)
	defer cancel()
	return errors.Join(err, keeper.Teardown(ctx), keeper.Close())
}

// keep programs the objects, and keeps them until the context is done.
func keep(ctx context.Context, keeper *routes.Keeper, logger *slog.Logger) error {
	apply := func() {
		if err := keeper.Apply(ctx); err != nil { // a join of one error for each object at fault
			logger.Error("some objects are not programmed", "err", err)
			return
		}
		logger.Info("all objects are programmed")
	}
	apply()
	report := func(repaired []routes.Object, faultsChanged bool) {
		for _, o := range repaired {
			logger.Warn("repaired an object that another program changed", "object", routes.Describe(o))
		}
		if faultsChanged {
			apply()
		}
	}
	if err := keeper.Watch(ctx, report); ctx.Err() == nil {
		return fmt.Errorf("watch: %w", err)
	}
	return nil
}

// parse returns a route and a rule for each argument.
func parse(args []string, table, priority uint32) (objects []routes.Object, err error) {
	if len(args) == 0 {
		return nil, errors.New("no routes, want PREFIX=GATEWAY; see --help")
	}
	seen := map[netip.Prefix]bool{}
	for _, arg := range args {
		to, by, _ := strings.Cut(arg, "=")
		prefix, err := netip.ParsePrefix(to)
		if err != nil {
			return nil, fmt.Errorf("route %q: %w", arg, err)
		}
		gateway, err := netip.ParseAddr(by)
		if err != nil {
			return nil, fmt.Errorf("route %q: %w", arg, err)
		}
		if gateway.Is4() != prefix.Addr().Is4() {
			return nil, fmt.Errorf("route %q: the gateway is of the other IP version", arg)
		}
		prefix = prefix.Masked()
		if seen[prefix] {
			return nil, fmt.Errorf("route %q: there is another route to %s", arg, prefix)
		}
		seen[prefix] = true
		family := 6
		if gateway.Is4() {
			family = 4
		}
		objects = append(
			objects,
			routes.Route{Dst: prefix, Gateway: gateway.WithZone(""), Interface: gateway.Zone()},
			routes.Rule{Family: family, Priority: priority, To: prefix, Table: table},
		)
	}
	return objects, nil
}
