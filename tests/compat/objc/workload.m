// Objective-C on the collected run time (libobjc_gc): nothing is ever freed. Trees of instances, methods
// found by name, classes made at run time, exceptions that carry objects.
#include <objc/Object.h>
#include <objc/runtime.h>
#include <stdint.h>
#include <stdio.h>

@interface Node : Object {
  Node *left_;
  Node *right_;
  long filler_[3];
}
+ (Node *)withDepth:(int)depth;
- (int)count;
- (long)filler;
@end

@implementation Node
+ (Node *)withDepth:(int)depth {
  Node *node = class_createInstance(self, 0);
  node->filler_[1] = depth;
  if (depth > 0) {
    node->left_ = [Node withDepth:depth - 1];
    node->right_ = [Node withDepth:depth - 1];
  }
  return node;
}
- (int)count {
  return 1 + [left_ count] + [right_ count];
}
- (long)filler {
  return filler_[1];
}
@end

@interface Leaf : Node
- (long)filler;
@end
@implementation Leaf
- (long)filler {
  return [super filler] + 100;
}
@end

static long Answer(id self, SEL selector) {
  (void)self;
  return (long)sel_getName(selector)[0];
}

int main(void) {
  Node *kept = [Node withDepth:17];
  long sum = 0;
  int i;
  for (i = 0; i < 200; i++) sum += [[Node withDepth:12] count];
  printf("trees: %ld %d\n", sum, [kept count]);

  sum = 0;
  for (i = 0; i < 200; i++) {
    char name[32];
    Class made;
    id object;
    SEL selector;
    snprintf(name, sizeof name, "Made%d", i);
    made = objc_allocateClassPair([Node class], name, 0);
    class_addIvar(made, "extra", 64 * 8, 3, "[64*]");
    snprintf(name, sizeof name, "answer%d", i);
    selector = sel_registerTypedName(name, "l16@0:8");
    class_addMethod(made, selector, (IMP)Answer, "l16@0:8");
    objc_registerClassPair(made);
    object = class_createInstance(made, 0);
    sum += ((long (*)(id, SEL))objc_msg_lookup(object, selector))(object, selector) + [object count];
  }
  printf("classes: %ld\n", sum);

  sum = 0;
  for (i = 0; i < 20000; i++) {
    @try {
      @throw [Leaf withDepth:i % 4];
    } @catch (Node *caught) {
      sum += [caught filler];
    }
  }
  printf("exceptions: %ld\n", sum);

  sum = 0;
  for (i = 0; i < 3000000; i++) sum += [[Leaf withDepth:0] filler];
  printf("messages: %ld %d\n", sum, [kept count]);
  return 0;
}
