/*
 * MPI's blocking calls as spans of the collector's trace (docs/several_processes.md).
 *
 * Compile this file with the mpicc of the program, and link it to the program, or preload it as a
 * shared object:
 *
 *     mpicc -O2 -shared -fPIC gleaner_mpi.c -o libgleaner_mpi.so
 *
 * It takes the place of the calls by MPI's profiling interface (MPI-4.0, chapter 15) and has no
 * effect without a trace, or without Gleaner. Calls on all ranks have the call's name; those on
 * some of them "part " before it. From Fortran, calls come here where the MPI library's Fortran
 * layer calls the C functions.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

extern uint64_t gleaner_trace_begin(void) __attribute__((__weak__));
extern void gleaner_trace_end(const char *name, uint64_t begin) __attribute__((__weak__));

static uint64_t begin_span(void) { return gleaner_trace_begin != NULL ? gleaner_trace_begin() : 0; }

/* A call that all ranks of the communicator make. */
static void end_collective(const char *name, MPI_Comm comm, uint64_t begin) {
  if (begin == 0) return;
  int ranks = 0, all = 0;
  char part[40];
  if (PMPI_Comm_size(comm, &ranks) != MPI_SUCCESS ||
      PMPI_Comm_size(MPI_COMM_WORLD, &all) != MPI_SUCCESS || ranks != all) {
    snprintf(part, sizeof part, "part %s", name);
    name = part;
  }
  gleaner_trace_end(name, begin);
}

static void end_call(const char *name, uint64_t begin) {
  if (begin != 0) gleaner_trace_end(name, begin);
}

#define COLLECTIVE(name, parameters, arguments) \
  int MPI_##name parameters {                   \
    const uint64_t begin = begin_span();        \
    const int status = PMPI_##name arguments;   \
    end_collective("MPI_" #name, comm, begin);  \
    return status;                              \
  }

#define CALL(name, parameters, arguments)     \
  int MPI_##name parameters {                 \
    const uint64_t begin = begin_span();      \
    const int status = PMPI_##name arguments; \
    end_call("MPI_" #name, begin);            \
    return status;                            \
  }

COLLECTIVE(Barrier, (MPI_Comm comm), (comm))
COLLECTIVE(Bcast, (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm),
           (buffer, count, type, root, comm))
COLLECTIVE(Reduce,
           (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, int root,
            MPI_Comm comm),
           (from, to, count, type, op, root, comm))
COLLECTIVE(Allreduce,
           (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (from, to, count, type, op, comm))
COLLECTIVE(Gather,
           (const void *from, int count, MPI_Datatype type, void *to, int to_count,
            MPI_Datatype to_type, int root, MPI_Comm comm),
           (from, count, type, to, to_count, to_type, root, comm))
COLLECTIVE(Gatherv,
           (const void *from, int count, MPI_Datatype type, void *to, const int to_counts[],
            const int displacements[], MPI_Datatype to_type, int root, MPI_Comm comm),
           (from, count, type, to, to_counts, displacements, to_type, root, comm))
COLLECTIVE(Allgather,
           (const void *from, int count, MPI_Datatype type, void *to, int to_count,
            MPI_Datatype to_type, MPI_Comm comm),
           (from, count, type, to, to_count, to_type, comm))
COLLECTIVE(Allgatherv,
           (const void *from, int count, MPI_Datatype type, void *to, const int to_counts[],
            const int displacements[], MPI_Datatype to_type, MPI_Comm comm),
           (from, count, type, to, to_counts, displacements, to_type, comm))
COLLECTIVE(Scatter,
           (const void *from, int count, MPI_Datatype type, void *to, int to_count,
            MPI_Datatype to_type, int root, MPI_Comm comm),
           (from, count, type, to, to_count, to_type, root, comm))
COLLECTIVE(Scatterv,
           (const void *from, const int counts[], const int displacements[], MPI_Datatype type,
            void *to, int to_count, MPI_Datatype to_type, int root, MPI_Comm comm),
           (from, counts, displacements, type, to, to_count, to_type, root, comm))
COLLECTIVE(Alltoall,
           (const void *from, int count, MPI_Datatype type, void *to, int to_count,
            MPI_Datatype to_type, MPI_Comm comm),
           (from, count, type, to, to_count, to_type, comm))
COLLECTIVE(Alltoallv,
           (const void *from, const int counts[], const int displacements[], MPI_Datatype type,
            void *to, const int to_counts[], const int to_displacements[], MPI_Datatype to_type,
            MPI_Comm comm),
           (from, counts, displacements, type, to, to_counts, to_displacements, to_type, comm))
COLLECTIVE(Scan,
           (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (from, to, count, type, op, comm))
COLLECTIVE(Exscan,
           (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (from, to, count, type, op, comm))
COLLECTIVE(Reduce_scatter,
           (const void *from, void *to, const int counts[], MPI_Datatype type, MPI_Op op,
            MPI_Comm comm),
           (from, to, counts, type, op, comm))
COLLECTIVE(Reduce_scatter_block,
           (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (from, to, count, type, op, comm))

CALL(Send, (const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm),
     (buffer, count, type, to, tag, comm))
CALL(Ssend, (const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm),
     (buffer, count, type, to, tag, comm))
CALL(Recv,
     (void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
      MPI_Status *result),
     (buffer, count, type, from, tag, comm, result))
CALL(Sendrecv,
     (const void *out, int out_count, MPI_Datatype out_type, int to, int out_tag, void *in,
      int in_count, MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm, MPI_Status *result),
     (out, out_count, out_type, to, out_tag, in, in_count, in_type, from, in_tag, comm, result))
CALL(Probe, (int from, int tag, MPI_Comm comm, MPI_Status *result), (from, tag, comm, result))
CALL(Wait, (MPI_Request * request, MPI_Status *result), (request, result))
CALL(Waitall, (int count, MPI_Request requests[], MPI_Status results[]), (count, requests, results))
CALL(Waitany, (int count, MPI_Request requests[], int *index, MPI_Status *result),
     (count, requests, index, result))
CALL(Waitsome, (int count, MPI_Request requests[], int *done, int indices[], MPI_Status results[]),
     (count, requests, done, indices, results))
