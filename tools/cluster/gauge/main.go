// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		stop()
		fmt.Fprintln(os.Stderr, "gauge:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	const usage = "serve | connect | watch | write; 'gauge COMMAND --help' lists the flags of a command"
	flags := newFlags(usage)
	if err := flags.Parse(args); err != nil {
		return err
	}
	args = flags.Args()
	if len(args) == 0 {
		return errors.New("usage: gauge " + usage)
	}
	var result any
	var err error
	switch command, args := args[0], args[1:]; command {
	case "serve":
		return serve(ctx, args)
	case "connect":
		result, err = connect(ctx, args)
	case "watch":
		result, err = watch(ctx, args)
	case "write":
		result, err = write(ctx, args)
	default:
		err = fmt.Errorf("no command %q", command)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// newFlags returns flags that print a usage for --help.
func newFlags(usage string) *flag.FlagSet {
	flags := flag.NewFlagSet("gauge", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: gauge %s\n", usage)
		flags.PrintDefaults()
	}
	return flags
}
