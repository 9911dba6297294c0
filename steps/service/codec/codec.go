// Package codec writes and reads the messages of the service in buffers that fit them.
//
// gRPC's own buffers have 32 KiB or 1 MiB. Of those, a thousand clients that do not read what they follow would hold gigabytes, and for each
// piece of a log that is longer than 32 KiB a megabyte would be cleared.
package codec

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec implements encoding.CodecV2.
type codec struct {
	encoding.CodecV2
	pool mem.BufferPool
}

// New returns a codec with buffers of its own. It is safe for concurrent use.
func New() encoding.CodecV2 {
	// The third and fourth size hold one short piece of a log, and two; the fifth a long one and a short one.
	pool := mem.NewTieredBufferPool(4<<10, 16<<10, 34<<10, 68<<10, 164<<10, 1<<20)
	return &codec{CodecV2: encoding.GetCodecV2(encodingproto.Name), pool: pool}
}

// Marshal implements encoding.CodecV2.
func (c *codec) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is not a message", v)
	}
	size := proto.Size(message)
	if mem.IsBelowBufferPoolingThreshold(size) {
		data, err := proto.MarshalOptions{UseCachedSize: true}.Marshal(message)
		return mem.BufferSlice{mem.SliceBuffer(data)}, err
	}
	buf := c.pool.Get(size)
	if _, err := (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend((*buf)[:0], message); err != nil {
		c.pool.Put(buf)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(buf, c.pool)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (c *codec) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a message", v)
	}
	buf := data.MaterializeToBuffer(c.pool)
	defer buf.Free()
	return proto.Unmarshal(buf.ReadOnlyData(), message) // copies what it keeps
}
