package service

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec writes messages into buffers that fit what this service sends. gRPC's own have 32 KiB or 1 MiB: of those, a thousand
// clients that do not read what they follow would hold gigabytes.
type codec struct {
	encoding.CodecV2 // which reads, too
	pool             mem.BufferPool
}

func newCodec() codec {
	// The fourth and fifth hold one piece of a log, and two.
	pool := mem.NewTieredBufferPool(256, 4<<10, 16<<10, 34<<10, 68<<10, 256<<10, 1<<20)
	return codec{encoding.GetCodecV2(encodingproto.Name), pool}
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
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
