// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"

	"github.com/wayleave/wayleave/tools/cluster/internal/measure"
)

// serve accepts and closes connections of TCP, and echoes datagrams of UDP, until ctx is done.
func serve(ctx context.Context, args []string) error {
	flags := newFlags("serve")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("serve: unexpected argument %q", flags.Arg(0))
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", fmt.Sprint(":", measure.TCPPort))
	if err != nil {
		return err
	}
	packets, err := config.ListenPacket(ctx, "udp", fmt.Sprint(":", measure.UDPPort))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() {
		_ = listener.Close()
		_ = packets.Close()
	})
	go echo(packets)
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		_ = conn.Close()
	}
}

func echo(packets net.PacketConn) {
	buffer := make([]byte, 64)
	for {
		n, from, err := packets.ReadFrom(buffer)
		if err != nil {
			return
		}
		_, _ = packets.WriteTo(buffer[:n], from)
	}
}
