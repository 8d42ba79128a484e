// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "gauge:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: gauge serve | connect | watch | write; 'go doc' has their arguments")
	}
	var result any
	var err error
	switch command, args := args[0], args[1:]; command {
	case "serve":
		return serve(ctx)
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
