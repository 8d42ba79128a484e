// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
)

const usage = `usage: portforward [flags] FILE

It forwards ports of this machine. A line of FILE is "tcp 8080 10.0.0.2:80". SIGHUP reads the file again.

`

// retryAfter is how long the program waits after an error of the kernel.
const retryAfter = time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], hangup, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp): // the help has been printed
	case err != nil:
		fmt.Fprintln(os.Stderr, "portforward:", err)
		os.Exit(1)
	}
}

// run runs the command line until the context is done.
func run(ctx context.Context, args []string, hangup <-chan os.Signal, out io.Writer) error {
	flags := flag.NewFlagSet("portforward", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		_, _ = fmt.Fprint(out, usage)
		flags.PrintDefaults()
	}
	table := flags.String("table", "portforward", "`name` of the nftables table, which must be this program's alone")
	remove := flags.Bool("remove", false, "delete the table and end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("%d arguments, want one: the file of forwards; see --help", flags.NArg())
	}
	logger := slog.New(slog.NewTextHandler(out, nil))
	kernel, err := applier.New(applier.Config{Name: *table, Logger: logger})
	if err != nil {
		return err
	}
	if *remove {
		return errors.Join(kernel.Teardown(ctx), kernel.Close())
	}
	k := &keeper{file: flags.Arg(0), table: *table, kernel: kernel, logger: logger}
	return errors.Join(k.run(ctx, hangup), kernel.Close())
}

// keeper keeps the table that a file describes. Only its goroutine may use the Applier.
type keeper struct {
	file, table string
	kernel      *applier.Applier
	logger      *slog.Logger
}

// run programs the table, and keeps it until the context is done or the first attempt fails.
func (k *keeper) run(ctx context.Context, hangup <-chan os.Signal) error {
	if err := k.load(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	drift, watching := make(chan applier.Drift), make(chan error, 1)
	go func() {
		watching <- k.kernel.Watch(ctx, func(d applier.Drift) {
			select {
			case drift <- d:
			case <-ctx.Done():
			}
		})
	}()
	var retry <-chan time.Time
	for {
		var err error
		select {
		case <-ctx.Done():
			<-watching
			return nil
		case err := <-watching: // without Watch, another process could change the table unnoticed
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("watch table %s: %w", k.table, err)
		case <-hangup:
			err = k.load(ctx)
		case d := <-drift:
			k.logger.Warn("another process changed the table", "table", k.table, "process", d.Process)
			err = k.kernel.Resync(ctx)
		case <-retry:
			err = k.kernel.Resync(ctx)
		}
		retry = nil
		if err != nil {
			k.logger.Error("the table differs from the file", "table", k.table, "err", err)
			retry = time.After(retryAfter)
		}
	}
}

// load reads the file and programs its table. If the file has an error, nothing changes.
func (k *keeper) load(ctx context.Context) error {
	text, err := os.ReadFile(k.file)
	if err != nil {
		return err
	}
	forwards, err := parse(k.file, string(text))
	if err != nil {
		return err
	}
	if err := k.kernel.Apply(ctx, newTable(k.table, forwards)); err != nil {
		return err
	}
	k.logger.Info("forwarding", "table", k.table, "forwards", len(forwards))
	return nil
}
