/*
 * MPI's blocking calls as spans of the collector's trace (docs/reference/commands.md).
 *
 * Compile this file with the mpicc of the program, and link it to the program, or preload it as a
 * shared object:
 *
 *     mpicc -O2 -shared -fPIC gleaner_mpi.c -o libgleaner_mpi.so
 *
 * It takes the place of the calls by MPI's profiling interface (MPI-4.0, chapter 15) and has no
 * effect without a trace, or without Gleaner. A program that links libgleaner.a needs
 * -Wl,-u,gleaner_trace_begin: a weak reference takes nothing out of an archive. Collective calls on
 * all ranks have the call's name. Those on some of them have "part " before it, and so have those
 * that move nothing for some rank, which need not wait. From Fortran, calls come here where the MPI
 * library's Fortran layer calls the C functions.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

extern uint64_t gleaner_trace_begin(void) __attribute__((__weak__));
extern void gleaner_trace_end(const char *name, uint64_t begin) __attribute__((__weak__));

static uint64_t begin_span(void) { return gleaner_trace_begin != NULL ? gleaner_trace_begin() : 0; }

/* Whether all processes of MPI_COMM_WORLD, and no others, make a call on the communicator. */
static int is_of_all(MPI_Comm comm) {
  int ranks = 0, all = 0, is_between = 0;
  return PMPI_Comm_test_inter(comm, &is_between) == MPI_SUCCESS && !is_between &&
         PMPI_Comm_size(comm, &ranks) == MPI_SUCCESS &&
         PMPI_Comm_size(MPI_COMM_WORLD, &all) == MPI_SUCCESS && ranks == all;
}

/* Whether no process of the communicator has a count of 0. pre: it is no intercommunicator. */
static int are_positive(const int counts[], MPI_Comm comm) {
  int ranks = 0, i = 0;
  if (PMPI_Comm_size(comm, &ranks) != MPI_SUCCESS) return 0;
  while (i < ranks && counts[i] > 0) ++i;
  return i == ranks;
}

static void end_part(const char *name, uint64_t begin) {
  char part[40];
  snprintf(part, sizeof part, "part %s", name);
  gleaner_trace_end(part, begin);
}

static void end_call(const char *name, uint64_t begin) {
  if (begin != 0) gleaner_trace_end(name, begin);
}

/* `moves_something`: for every rank; whether it is so is known to all of them. */
#define COLLECTIVE(name, parameters, arguments, moves_something)                                  \
  int MPI_##name parameters {                                                                     \
    const uint64_t begin = begin_span();                                                          \
    const int status = PMPI_##name arguments;                                                     \
    if (begin != 0)                                                                               \
      (is_of_all(comm) && (moves_something) ? gleaner_trace_end : end_part)("MPI_" #name, begin); \
    return status;                                                                                \
  }

#define CALL(name, parameters, arguments)     \
  int MPI_##name parameters {                 \
    const uint64_t begin = begin_span();      \
    const int status = PMPI_##name arguments; \
    end_call("MPI_" #name, begin);            \
    return status;                            \
  }

COLLECTIVE(Barrier, (MPI_Comm comm), (comm), 1)
COLLECTIVE(Bcast, (void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm),
           (buffer, count, type, root, comm), count > 0)
COLLECTIVE(Reduce,
           (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, int root,
            MPI_Comm comm),
           (from, to, count, type, op, root, comm), count > 0)
COLLECTIVE(Allreduce,
           (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (from, to, count, type, op, comm), count > 0)
COLLECTIVE(Gather,
           (const void *from, int count, MPI_Datatype type, void *to, int to_count,
            MPI_Datatype to_type, int root, MPI_Comm comm),
           (from, count, type, to, to_count, to_type, root, comm), 1)
COLLECTIVE(Gatherv,
           (const void *from, int count, MPI_Datatype type, void *to, const int to_counts[],
            const int displacements[], MPI_Datatype to_type, int root, MPI_Comm comm),
           (from, count, type, to, to_counts, displacements, to_type, root, comm), 1)
COLLECTIVE(Allgather,
           (const void *from, int count, MPI_Datatype type, void *to, int to_count,
            MPI_Datatype to_type, MPI_Comm comm),
           (from, count, type, to, to_count, to_type, comm), to_count > 0)
COLLECTIVE(Allgatherv,
           (const void *from, int count, MPI_Datatype type, void *to, const int to_counts[],
            const int displacements[], MPI_Datatype to_type, MPI_Comm comm),
           (from, count, type, to, to_counts, displacements, to_type, comm),
           are_positive(to_counts, comm))
COLLECTIVE(Scatter,
           (const void *from, int count, MPI_Datatype type, void *to, int to_count,
            MPI_Datatype to_type, int root, MPI_Comm comm),
           (from, count, type, to, to_count, to_type, root, comm), 1)
COLLECTIVE(Scatterv,
           (const void *from, const int counts[], const int displacements[], MPI_Datatype type,
            void *to, int to_count, MPI_Datatype to_type, int root, MPI_Comm comm),
           (from, counts, displacements, type, to, to_count, to_type, root, comm), 1)
COLLECTIVE(Alltoall,
           (const void *from, int count, MPI_Datatype type, void *to, int to_count,
            MPI_Datatype to_type, MPI_Comm comm),
           (from, count, type, to, to_count, to_type, comm), to_count > 0)
COLLECTIVE(Alltoallv,
           (const void *from, const int counts[], const int displacements[], MPI_Datatype type,
            void *to, const int to_counts[], const int to_displacements[], MPI_Datatype to_type,
            MPI_Comm comm),
           (from, counts, displacements, type, to, to_counts, to_displacements, to_type, comm), 1)
COLLECTIVE(Scan,
           (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (from, to, count, type, op, comm), count > 0)
COLLECTIVE(Exscan,
           (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (from, to, count, type, op, comm), count > 0)
COLLECTIVE(Reduce_scatter,
           (const void *from, void *to, const int counts[], MPI_Datatype type, MPI_Op op,
            MPI_Comm comm),
           (from, to, counts, type, op, comm), are_positive(counts, comm))
COLLECTIVE(Reduce_scatter_block,
           (const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (from, to, count, type, op, comm), count > 0)

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
